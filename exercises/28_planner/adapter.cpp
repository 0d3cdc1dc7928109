// One solution of exercise 28 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::HandLayout layout(const exercise::Layout& l) {
  return {l.shape, l.batch, l.sequence, l.microbatch, l.chunks, l.zero, l.recomputed};
}
student::BatchLimits limits(const exercise::Limits& l) {
  return {l.batch, l.sequence, l.flops, l.sends, l.tp_shares_links, l.critical};
}

exercise::States states(const exercise::CountedModel& m, const exercise::Layout& l) {
  const student::HandMemory held = student::states_by_hand(m, layout(l));
  return {held.weights, held.gradients, held.optimizer};
}
double activations(const exercise::CountedModel& m, const exercise::Layout& l) {
  return student::activations_by_hand(m, layout(l));
}
double bubble(const exercise::Layout& l) { return student::bubble_by_hand(layout(l)); }

exercise::Reached limit_case(const exercise::Limits& l, double chips) {
  return static_cast<exercise::Reached>(student::limit_case(limits(l), chips));
}
exercise::Fed fed_chips(const exercise::Limits& l, const exercise::MeshShape& shape) {
  const student::FedChips fed = student::fed_chips(limits(l), shape);
  return {fed.by_batch, fed.by_communication};
}
exercise::MeshShape axes_to_feed(const exercise::Limits& l, double chips, exercise::Most most) {
  return student::axes_to_feed(limits(l), chips, {most.tp, most.cp, most.pp});
}

exercise::Answer run_answer(const exercise::Run& r) {
  const student::RunAnswer answer =
      student::run_answer({r.parameters, r.tokens, r.chips, r.flops, r.memory, r.mfu});
  return {answer.flops, answer.days, answer.least_chips, answer.month_chips};
}

}  // namespace

const exercise::Solution exercise::solution = {states,    activations,  bubble,    limit_case,
                                               fed_chips, axes_to_feed, run_answer};
