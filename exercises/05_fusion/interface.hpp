// What the graded cases of exercise 05 call. adapter.cpp fills it with the functions of one
// solution. Kernels, walks and lines are plain values here: where a solution is compiled, the
// library's own functions on them must not be seen.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

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
  yotta::OpCost (*cost)(const Graph& graph, const Kernel& kernel);
  bool (*same_walk)(const Shape& a, const Shape& b);
  std::vector<int> (*fuse)(const Graph& graph);
  bool (*leaves)(const Graph& graph, const std::vector<int>& owner, int n);
  std::vector<int> (*phases)(const Graph& graph, const Kernel& kernel);
  std::vector<Line> (*lines)(const Graph& graph, const Kernel& kernel, const Walk& walk, int phase);
  bool (*can_overwrite)(const Graph& graph, const std::vector<Line>& lines, int from, int to);
};
extern const Solution solution;

}  // namespace exercise
