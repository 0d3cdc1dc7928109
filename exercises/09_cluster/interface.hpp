// What the graded cases of exercise 09 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <string>
#include <vector>

#include "course/cases/own_stack.hpp"
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
  Call<double(double alpha, double beta, double bytes)> seconds;
  Call<int(const std::vector<int>& axes, int from, int to)> torus_hops;
  Call<Link(const Machine& machine, int from, int to)> link;
  Call<Machine(const yotta::Chip& chip, int count)> switched;
  Call<Machine()> llama3_24k;
  Call<std::vector<int>(int count, int axes)> nearly_cubic;
  Call<double(const Machine& machine, const std::vector<int>& chips, double bytes)> ring;
};
extern const Solution solution;

}  // namespace exercise
