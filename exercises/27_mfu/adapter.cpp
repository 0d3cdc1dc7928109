// One solution of exercise 27 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::Scores as_scores(exercise::Counted scores) { return static_cast<student::Scores>(scores); }

exercise::Parts forward_flops(const exercise::CountedModel& m, double T, exercise::Counted scores) {
  const student::TokenFlops f = student::forward_flops(m, T, as_scores(scores));
  return {f.projections, f.scores, f.feed_forward, f.output};
}

double hardware_flops(const exercise::CountedModel& m, double T, exercise::Counted scores,
                      yotta::Recomputed again) {
  return student::hardware_flops(m, T, as_scores(scores), again);
}

double mfu_of_log(const exercise::Log& log, double flops_a_token) {
  return student::mfu_of_log({log.step_seconds, log.warm_up, log.tokens_a_rank, log.data_ranks,
                              log.chips, log.printed_peak, log.sparse},
                             flops_a_token);
}

exercise::OpParts op_time(const exercise::TraceEvent& op, const exercise::MfuMachine& machine) {
  const student::OpTime time = student::op_time(op, machine);
  return {time.counted, time.wider, time.memory, time.launch};
}

exercise::Waterfall waterfall(const exercise::Trace& trace, const exercise::MfuMachine& machine,
                              double model_flops, double begin, double end) {
  return student::waterfall_of(trace, machine, model_flops, begin, end);
}

}  // namespace

const exercise::Solution exercise::solution = {forward_flops, hardware_flops,    mfu_of_log,
                                               op_time,       student::add_wait, waterfall};
