// What the graded cases of exercise 05 call. adapter.cpp fills it with the functions of one
// solution. Kernels, walks and lines are plain values here: where a solution is compiled, the
// library's own functions on them must not be seen.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/device/graph.hpp"

namespace exercise {

using yotta::Graph;
using yotta::Size;

struct Kernel {
  std::vector<int> nodes, reads, writes;
  Size space;
};
struct Shape {
  Size space;
  bool alone, reduces;
};
struct Walk {
  Size space;
  bool flat, reduces;
  std::vector<int> values;
  yotta::ByNode<int> phase;
  yotta::ByNode<bool> a_row, crosses, reduced;
};
struct Line {
  int step, node;  // the step's number
};

struct Solution {
  Call<yotta::OpCost(const Graph& graph, const Kernel& kernel)> cost;
  Call<bool(const Shape& a, const Shape& b)> same_walk;
  Call<std::vector<int>(const Graph& graph)> fuse;
  Call<bool(const Graph& graph, const std::vector<int>& owner, int n)> leaves;
  Call<std::vector<int>(const Graph& graph, const Kernel& kernel)> phases;
  Call<std::vector<Line>(const Graph& graph, const Kernel& kernel, const Walk& walk, int phase)>
      lines;
  Call<bool(const Graph& graph, const std::vector<Line>& lines, int from, int to)> can_overwrite;
};
extern const Solution solution;

}  // namespace exercise
