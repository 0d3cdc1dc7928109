// One solution of exercise 19 (the student's, the library's or a wrong one) as the graded cases see it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::ZeroBubble kind(int k) { return static_cast<student::ZeroBubble>(k); }

yotta::PipelineActions actions(int rank, int p, int64_t m, int k) {
  return student::zero_bubble_actions(rank, p, m, kind(k));
}
double longest_rank(const yotta::PipelineTimeline& timeline) {
  return student::longest_rank(timeline);
}
double bubble_rate(const yotta::PipelineSchedule& schedule, const yotta::PipelineCosts& costs) {
  return student::bubble_rate(schedule, costs);
}
exercise::Held held(int rank, int p, int k) {
  const auto most = student::held_by_zero_bubble(kind(k), rank, p);
  return {most.before_input, most.before_weight};
}

}  // namespace

const exercise::Solution exercise::solution = {actions, longest_rank, bubble_rate, held};
