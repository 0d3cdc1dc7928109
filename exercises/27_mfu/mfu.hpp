// Cut from include/yotta. Students: write between the marks of your copy in work/.
// Authors: edit the library's header; `./yotta check NN --cut` writes this file again.
// MFU, model FLOPs utilization: which share of the peak of its chips a training run got.
//
//            FLOPs of the model per token x  tokens per second
//     MFU =  -----------------------------------------------
//                     chips  x  peak FLOP/s, dense
//
//     forward, a token of a block      FLOPs
//     q and o, k and v                 2 x 2 C H d + 2 x 2 C K d
//     scores and their sums            4 H d T, of which half is masked (causal: 2 H d T)
//     feed-forward                     2 (k + S) M C F, and the router 2 C E
//     after the blocks: output         2 V C
//     backward: twice that. A model's FLOPs are 3 forward passes, however they are computed
//
// Both numbers of this fraction are conventions: which scores count, whether the token table counts
// in N, dense or sparse peak, bf16 or fp8, tokens of one GPU or of all. Two MFUs can be compared
// only if these agree.
//
// Recomputation costs FLOPs and is no work of the model: it is in HFU, hardware FLOPs utilization,
// and not in MFU. The waterfall (waterfall.hpp) says where the rest of the peak has gone. It is
// computed from a timeline: each second of each rank is in one of its lines.
//
//     op     │ counted │ wider │ memory │ launch │ clock, straggler │    by the roofline
//     wait   │ messages │ another rank's work │                          by the chain of causes
//
// Letters: as in counted_model.hpp; T tokens of a sequence.
// References: Chowdhery et al. 2022 (PaLM), appendix B; Korthikanti et al. 2022, appendix A.
#pragma once

#include <vector>

#include "yotta/core/exercise.hpp"
#include "yotta/parallel/activation_memory.hpp"
#include "yotta/plan/counted_model.hpp"
#include "yotta/plan/waterfall.hpp"

#include <algorithm>

#include "yotta/machine/critical_path.hpp"

namespace yotta::student {

// ---- FLOPs of a token ----

// Which scores of attention are counted: none, those that a causal mask leaves, or all.
enum class Scores : uint8_t { none, causal, all };

struct TokenFlops {
  double projections = 0, scores = 0, feed_forward = 0, output = 0;

  constexpr double sum() const { return projections + scores + feed_forward + output; }
};

// Of a token of a sequence of T, on average, forward.
constexpr TokenFlops forward_flops(const CountedModel& m, double T, Scores scores) {
  // exercise 27.1: 2 for each weight that a token meets, by parts; the scores of all layers
  not_done("27.1");
  return {};
  // end of exercise 27.1
}

// What the model needs of a token in training: forward, and backward for inputs and for weights.
constexpr double model_flops(const CountedModel& m, double T, Scores scores) {
  return 3 * forward_flops(m, T, scores).sum();
}

// What the chips compute: the model's, and what backward computes again. Attention again is its
// scores, all again is the whole block; the output matrix is outside.
constexpr double hardware_flops(const CountedModel& m, double T, Scores scores, Recomputed again) {
  // exercise 27.2: three forward passes, and a part of a fourth
  not_done("27.2");
  return {};
  // end of exercise 27.2
}

// ---- MFU of a run ----

constexpr double mfu(double flops_a_token, double tokens_a_second, double chips, double peak) {
  return flops_a_token * tokens_a_second / (chips * peak);
}
constexpr double tokens_a_second(double mfu, double flops_a_token, double chips, double peak) {
  return mfu * chips * peak / flops_a_token;
}

// What a run's log says.
struct RunLog {
  std::vector<double> step_seconds;  // of all steps, in their order
  int64_t warm_up = 0;               // the first steps, which are not counted
  double tokens_a_rank = 0;          // of a step, on one of the ranks that share the batch
  int64_t data_ranks = 1;            // so many share it; the others are tp, cp and pp
  int64_t chips = 1;
  double printed_peak = 0;  // FLOP/s, as on the datasheet
  bool sparse = false;      // with an asterisk: for matrices of which half is 0
};

// The middle of some numbers; of an even number of them the larger of the two in the middle.
inline double median_of(std::vector<double> values, Where where = Where::current());

// MFU of the median step. Errors: no step is left after the warm-up; a step of no time.
inline double mfu_of_log(const RunLog& log, double flops_a_token,
                            Where where = Where::current());

// ---- the waterfall ----

// Seconds of an operation as described: what its FLOPs would take at the peak, and what is added.
struct OpTime {
  double counted = 0;  // only of matrix products
  double wider = 0, memory = 0, launch = 0;

  double sum() const { return counted + wider + memory + launch; }
};
// Without a known chip other operations than matrix products are all memory.
inline OpTime op_time(const TraceEvent& op, const MfuMachine& machine);

// Adds `seconds` of an operation, in the shares of the whole of it. Returns the matrix FLOPs in
// them. `slow`: all chips take at least so many times as long as described.
inline double add_op(Waterfall& to, const TraceEvent& op, double seconds,
                        const MfuMachine& machine, double slow);

// Adds what a rank waited for between two times: the chain of causes that leads back from `cause`.
// Where another rank's operation took more than `slow` times its described time, the excess counts
// as a straggler's; the rest of it is bubble.
inline void add_wait(Waterfall& to, const Trace& trace, EventId cause, double from, double until,
                        const MfuMachine& machine, double slow);

// Of all ranks of a trace between two times, in which the model has needed `model_flops`, by the
// formula of your choice. Errors: no time lies between them.
inline Waterfall waterfall_of(const Trace& trace, const MfuMachine& machine, double model_flops,
                                 double begin, double end);
// Of a whole run.
inline Waterfall waterfall_of(const Trace& trace, const MfuMachine& machine, double model_flops);

}  // namespace yotta::student


namespace yotta::student {

double median_of(std::vector<double> values, Where where) {
  if (values.empty()) fail(where, "there is no median of no values");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double mfu_of_log(const RunLog& log, double flops_a_token, Where where) {
  // exercise 27.3: the median step after the warm-up, the tokens of all ranks, the dense peak
  not_done("27.3");
  return {};
  // end of exercise 27.3
}

// `counted`: what the FLOPs of a matrix product take at the peak; 0 for other operations.
inline OpTime time_on_chip(const TraceEvent& op, const Chip& chip, double counted) {
  // exercise 27.4: by the roofline, max(FLOPs / peak of its type, bytes / bandwidth) + overhead
  not_done("27.4");
  return {};
  // end of exercise 27.4
}

OpTime op_time(const TraceEvent& op, const MfuMachine& machine) {
  const bool counts = is_matrix_product(op.name);
  const double counted = counts ? op.flops / machine.peak : 0;
  if (machine.chip) return time_on_chip(op, *machine.chip, counted);
  return {.counted = counted, .memory = counts ? 0 : op.seconds()};
}

namespace detail {
// The share of an operation by which it took longer than `slow` times as described.
inline double late_share(const TraceEvent& op, const MfuMachine& machine, double slow) {
  return machine.chip && op.seconds() > 0 ? 1 - slow * op_time(op, machine).sum() / op.seconds()
                                          : 0;
}
}  // namespace detail

double add_op(Waterfall& to, const TraceEvent& op, double seconds, const MfuMachine& machine,
              double slow) {
  const double share = seconds / op.seconds();
  const OpTime time = op_time(op, machine);
  const double late = seconds * detail::late_share(op, machine, slow);
  to.add(Loss::launch, share * time.launch);
  to.add(Loss::memory, share * time.memory);
  to.add(Loss::wider, share * time.wider);
  to.add(Loss::clock, seconds - late - share * time.sum());
  to.add(Loss::straggler, late);
  return is_matrix_product(op.name) ? share * op.flops : 0;
}

// `left`: until when it is not yet known what was waited for.
inline void add_cause(Waterfall& to, const TraceEvent& event, double from, double& left,
                      const MfuMachine& machine, double slow) {
  // exercise 27.5: the part of the wait since this event began, by what it was; go on before it
  not_done("27.5");
  // end of exercise 27.5
}

void add_wait(Waterfall& to, const Trace& trace, EventId cause, double from, double until,
              const MfuMachine& machine, double slow) {
  double left = until;  // of the wait, from its end back
  walk_back(trace, cause, [&](EventId, const TraceEvent& event) {
    add_cause(to, event, from, left, machine, slow);
    return left > from;
  });
  if (left > from) to.add(Loss::communication, left - from, "other waits");
}

namespace detail {

// How many times as long as described every operation has taken, at least: the clock of all chips.
inline double clock_factor(const Trace& trace, const MfuMachine& machine) {
  double least = no_limit;
  for (const std::vector<TraceEvent>& rank : trace.ranks)
    for (const TraceEvent& event : rank)
      if (event.kind == EventKind::op && event.seconds() > 0)
        least = std::min(least, event.seconds() / op_time(event, machine).sum());
  return machine.chip && least < no_limit ? least : 1;
}

// The event that was the last to end on any compute lane, of those that had ended by `end`.
inline EventId last_before(const Trace& trace, double end) {
  EventId last;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank)
    for (size_t i = 0; i < trace.ranks[rank].size(); ++i) {
      const TraceEvent& event = trace.ranks[rank][i];
      if (event.lane != compute_lane || event.end > end) continue;
      if (last.rank < 0 || event.end > trace.at(last).end)
        last = {static_cast<int>(rank), static_cast<int>(i)};
    }
  return last;
}

}  // namespace detail

Waterfall waterfall_of(const Trace& trace, const MfuMachine& machine, double model_flops,
                       double begin, double end) {
  // exercise 27.6: every second of every rank from begin to end, once; then the matrix FLOPs
  not_done("27.6");
  return {};
  // end of exercise 27.6
}

Waterfall waterfall_of(const Trace& trace, const MfuMachine& machine, double model_flops) {
  return waterfall_of(trace, machine, model_flops, 0, seconds(trace));
}

}  // namespace yotta::student
