// One solution of exercise 05 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;
using yotta::Graph;

student::Kernel own(const exercise::Kernel& kernel) {
  return {kernel.nodes, kernel.reads, kernel.writes, kernel.space};
}
student::Owners own(const std::vector<int>& owner) {
  student::Owners made;
  made.assign(owner.begin(), owner.end());
  return made;
}

yotta::OpCost cost(const Graph& graph, const exercise::Kernel& kernel) {
  return student::cost_of(graph, own(kernel));
}
bool same_walk(const exercise::Shape& a, const exercise::Shape& b) {
  return student::same_walk({a.space, a.alone, a.reduces}, {b.space, b.alone, b.reduces});
}
std::vector<int> fuse(const Graph& graph) { return student::fuse(graph); }
bool leaves(const Graph& graph, const std::vector<int>& owner, int n) {
  return student::leaves_kernel(graph, own(owner), n);
}
std::vector<int> phases(const Graph& graph, const exercise::Kernel& kernel) {
  student::Walk walk;
  student::find_phases(graph, own(kernel), walk);
  return walk.phase;
}
std::vector<exercise::Line> lines(const Graph& graph, const exercise::Kernel& kernel,
                                  const exercise::Walk& walk, int phase) {
  student::Walk mine;
  mine.space = walk.space, mine.flat = walk.flat, mine.reduces = walk.reduces;
  mine.values = walk.values, mine.phase = walk.phase, mine.a_row = walk.a_row;
  mine.crosses = walk.crosses, mine.reduced = walk.reduced;
  std::vector<student::Line> made;
  student::add_phase(graph, own(kernel), mine, phase, made);
  std::vector<exercise::Line> plain;
  for (const student::Line& line : made) plain.push_back({static_cast<int>(line.step), line.node});
  return plain;
}
bool can_overwrite(const Graph& graph, const std::vector<exercise::Line>& lines, int from, int to) {
  std::vector<student::Line> mine;
  for (const exercise::Line& line : lines)
    mine.push_back({static_cast<student::LineStep>(line.step), line.node});
  return student::can_overwrite(graph, mine, from, to);
}

}  // namespace

const exercise::Solution exercise::solution = {cost,   same_walk, fuse,         leaves,
                                               phases, lines,     can_overwrite};
