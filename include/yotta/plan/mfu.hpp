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
//     of latent attention: its weights, and scores of P + D + V numbers: nn/latent_attention.hpp
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
//     op     │ counted │ type's lower peak │ memory │ launch │ clock, straggler │  by the roofline
//     wait   │ messages │ another rank's work │                          by the chain of causes
//
// Letters: as in counted_model.hpp; T tokens of a sequence.
// References: Chowdhery et al. 2022 (PaLM), appendix B; Korthikanti et al. 2022, appendix A.
#pragma once

#include <algorithm>
#include <vector>

#include "yotta/machine/critical_path.hpp"
#include "yotta/nn/mask_options.hpp"
#include "yotta/parallel/activation_memory.hpp"
#include "yotta/plan/counted_model.hpp"
#include "yotta/plan/waterfall.hpp"

namespace yotta {

// ---- FLOPs of a token ----

// Which scores of attention are counted: none, those that a causal mask leaves, or all.
enum class Scores : uint8_t { none, causal, all };

struct TokenFlops {
  double projections = 0, scores = 0, feed_forward = 0, output = 0;

  constexpr double sum() const { return projections + scores + feed_forward + output; }
};

// Of a token of a sequence of T, on average, forward.
constexpr TokenFlops forward_flops(const CountedModel& m, double T, Scores scores) {
  TokenFlops flops;
  const double seen = scores == Scores::none ? 0 : scores == Scores::causal ? T / 2 : T;
  const auto of_heads = static_cast<double>(m.heads * (m.query_size() + m.value_size()));
  flops.projections = 2 * projection_weights(m);
  flops.scores = 2 * static_cast<double>(m.layers) * of_heads * seen;
  flops.feed_forward = 2 * met_in_feed_forward(m);
  flops.output = 2 * output_weights(m);
  return flops;
}

// Scores that a mask leaves of a document of n tokens, or of a sequence without documents. Of
// causal attention they are n (n + 1) / 2.
constexpr int64_t seen_scores(const MaskOptions& mask, int64_t n) {
  const int64_t prefix = std::min(mask.prefix, n);
  int64_t seen = 0;
  for (int64_t t = 0; t < n; ++t) {
    const int64_t first = mask.window > 0 ? std::max<int64_t>(0, t + 1 - mask.window) : 0;
    const int64_t in_both = std::max<int64_t>(0, std::min(prefix, t + 1) - first);
    seen += t + 1 - first + prefix - in_both;
  }
  return seen;
}

// What the model needs of a token in training: forward, and backward for inputs and for weights.
constexpr double model_flops(const CountedModel& m, double T, Scores scores) {
  return 3 * forward_flops(m, T, scores).sum();
}

// What it needs of a step, by the rule of lesson 27: weights that a token meets, causal scores.
constexpr double needed_flops(const TransformerConfig& c, int64_t batch, int64_t sequence) {
  const auto T = static_cast<double>(sequence);
  return static_cast<double>(batch) * T * model_flops(counted_model(c), T, Scores::causal);
}

// What the chips compute: the model's, and what backward computes again. Attention again is its
// scores, all again is the whole block; the output matrix is outside.
constexpr double hardware_flops(const CountedModel& m, double T, Scores scores, Recomputed again) {
  const TokenFlops forward = forward_flops(m, T, scores);
  double flops = 3 * forward.sum();
  if (again == Recomputed::attention) flops += forward.scores;
  if (again == Recomputed::all) flops += forward.sum() - forward.output;
  return flops;
}

// ---- MFU of a run ----
constexpr double tokens_a_second(double mfu, double flops_a_token, double chips, double peak) {
  return mfu * chips * peak / flops_a_token;
}

constexpr double mfu(double flops_a_token, double tokens_a_second, double chips, double peak) {
  return flops_a_token * tokens_a_second / (chips * peak);
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
inline double median_of(std::vector<double> values, Where where = Where::current()) {
  if (values.empty()) fail(where, "there is no median of no values");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// MFU of the median step. Errors: no step is left after the warm-up; a step of no time.
inline double mfu_of_log(const RunLog& log, double flops_a_token, Where where = Where::current()) {
  for (const double each : log.step_seconds)
    if (!(each > 0)) fail(where, "a step of {} s: each step of a log takes longer than 0 s", each);
  if (log.warm_up >= std::ssize(log.step_seconds))
    fail(where, "{} steps of warm-up, and the run had {}", log.warm_up, log.step_seconds.size());
  const double seconds =
      median_of({log.step_seconds.begin() + log.warm_up, log.step_seconds.end()}, where);
  const double tokens = log.tokens_a_rank * static_cast<double>(log.data_ranks);
  const double peak = log.sparse ? log.printed_peak / 2 : log.printed_peak;
  return mfu(flops_a_token, tokens / seconds, static_cast<double>(log.chips), peak);
}

// ---- the waterfall ----

// Seconds of an operation as described: what its FLOPs would take at the peak, and what is added.
struct OpTime {
  double counted = 0;  // only of matrix products
  double wider = 0;    // what products in a type of a lower peak take more
  double memory = 0, launch = 0;

  double sum() const { return counted + wider + memory + launch; }
};

// `counted`: what the FLOPs of a matrix product take at the peak; 0 for other operations.
inline OpTime time_on_chip(const TraceEvent& op, const Chip& chip, double counted) {
  OpTime time{counted};
  const double computing = op.flops > 0 ? op.flops / peak(chip, op.dtype) : 0;
  const double moving = static_cast<double>(op.bytes) / chip.bandwidth;
  if (is_matrix_product(op.name)) time.wider = computing - counted;
  time.memory = std::max(computing, moving) - counted - time.wider;
  time.launch = chip.launch_overhead;
  return time;
}

// Without a known chip other operations than matrix products are all memory.
inline OpTime op_time(const TraceEvent& op, const MfuMachine& machine) {
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

// Adds `seconds` of an operation, in the shares of the whole of it. Returns the matrix FLOPs in
// them. `slow`: all chips take at least so many times as long as described.
inline double add_op(Waterfall& to, const TraceEvent& op, double seconds, const MfuMachine& machine,
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
  const double begin = std::max(from, std::min(event.begin, left));
  const double part = left - begin;
  left = begin;
  if (event.kind == EventKind::op) {
    const double late = part * detail::late_share(event, machine, slow);
    to.add(Loss::straggler, late);
    to.add(Loss::bubble, part - late);
  } else {
    to.add(Loss::communication, part, event.name);
  }
}

// Adds what a rank waited for between two times: the chain of causes that leads back from `cause`.
// Where another rank's operation took more than `slow` times its described time, the excess counts
// as a straggler's; the rest of it is bubble.
inline void add_wait(Waterfall& to, const Trace& trace, EventId cause, double from, double until,
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

// Of all ranks of a trace between two times, in which the model has needed `model_flops`, by the
// formula of your choice. Errors: no time lies between them.
inline Waterfall waterfall_of(const Trace& trace, const MfuMachine& machine, double model_flops,
                              double begin, double end) {
  if (!(end > begin)) fail(Where::current(), "there is no time from {} s to {} s", begin, end);
  Waterfall all{machine.peak, static_cast<int>(trace.ranks.size()), end - begin, model_flops};
  const double slow = detail::clock_factor(trace, machine);
  const EventId last = detail::last_before(trace, end);  // of all ranks
  double computed = 0;
  for (const std::vector<TraceEvent>& rank : trace.ranks) {
    double until = begin;  // so far it is known what the rank did
    for (const TraceEvent& event : rank) {
      const double from = std::max(event.begin, until), to = std::min(event.end, end);
      if (event.lane != compute_lane || to <= from) continue;
      all.add(Loss::between, from - until);
      if (event.kind == EventKind::op)
        computed += add_op(all, event, to - from, machine, slow);
      else
        add_wait(all, trace, event.cause, from, to, machine, slow);
      until = to;
    }
    if (until < end) add_wait(all, trace, last, until, end, machine, slow);  // it has ended
  }
  all.add(Loss::recomputation, (computed - model_flops) / machine.peak);
  return all;
}

// Of a whole run.
inline Waterfall waterfall_of(const Trace& trace, const MfuMachine& machine, double model_flops) {
  return waterfall_of(trace, machine, model_flops, 0, seconds(trace));
}

}  // namespace yotta
