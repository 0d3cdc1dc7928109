// What the graded cases of exercise 09 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <string>
#include <vector>

#include "yotta/core/exercise.hpp"
#include "yotta/machine/chip.hpp"

namespace exercise {

// A machine as plain values. It is not yotta::Cluster: where a solution is compiled the library's
// own functions must not be seen, or a call with a Chip could mean either.
struct Link {
  double alpha, beta;
  int level;
};
struct Level {
  std::string name;
  int chips;
  double alpha, beta;
};
struct Machine {
  std::vector<Level> levels;
  std::vector<int> torus;
};

struct Solution {
  double (*seconds)(double alpha, double beta, double bytes);
  int (*torus_hops)(const std::vector<int>& axes, int from, int to);
  Link (*link)(const Machine& machine, int from, int to);
  Machine (*switched)(const yotta::Chip& chip, int count);
  Machine (*llama3_24k)();
  std::vector<int> (*nearly_cubic)(int count, int axes);
  double (*ring)(const Machine& machine, const std::vector<int>& chips, double bytes);
};
extern const Solution solution;

}  // namespace exercise
