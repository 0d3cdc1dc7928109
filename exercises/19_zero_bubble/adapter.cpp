// One solution of exercise 19 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::ZeroBubble kind(int k) { return static_cast<student::ZeroBubble>(k); }

exercise::Held held(int rank, int p, int k) {
  const auto most = student::held_by_zero_bubble(kind(k), rank, p);
  return {most.before_input, most.before_weight};
}
yotta::PipelineActions actions(int rank, int p, int64_t m, int k) {
  return student::zero_bubble_actions(rank, p, m, kind(k));
}
double bubble_rate(const yotta::PipelineSchedule& schedule, const yotta::PipelineCosts& costs) {
  return student::bubble_rate(schedule, costs);
}
double can_begin(yotta::PipelineOp op, int rank, const std::vector<exercise::Rank>& ranks,
                 int64_t m, int64_t hold, const yotta::PipelineCosts& costs) {
  std::vector<student::GreedyRank> theirs;
  for (const exercise::Rank& each : ranks)
    theirs.push_back({each.forward, each.input, each.weights, each.free});
  return student::can_begin(op, rank, theirs, m, hold, costs);
}
yotta::PipelineSchedule greedy(int p, int64_t m, int64_t hold, const yotta::PipelineCosts& costs) {
  return student::greedy_schedule(p, m, hold, costs);
}
yotta::PipelineActions zb_v(int rank, int p, int64_t m) {
  return student::zb_v_actions(rank, p, m);
}

}  // namespace

const exercise::Solution exercise::solution = {held, actions, bubble_rate, can_begin, greedy, zb_v};
