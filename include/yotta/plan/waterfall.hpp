// A waterfall of lost FLOPs: how the peak of some chips becomes the share of it that a model got.
//
//     100%   the peak: FLOP/s of all chips, times the time
//     ████▌  - launch gaps             every operation costs some time beside its work
//     ████   - bound by memory         norms, activations, the optimizer; small matrix products
//     ███▌   - clock, stragglers       operations that take longer than the roofline says
//     ███    - exposed communication   waited for while nothing was computed
//     ██     - bubble                  waited for another rank's work
//     █▋     - recomputation           matrix products that the model does not need
//     █▌     = MFU                     FLOPs of the model, which its formula counts
//
// All are seconds of ranks: p ranks that run for t seconds have p t of them, and each is in one
// line. So the lines add up to 100% exactly; mfu.hpp fills them from a timeline. A line can be less
// than 0: a formula that counts all scores of causal attention counts FLOPs that nobody computes.
//
// MFU, model FLOPs utilization, is what the model needs; HFU, hardware FLOPs utilization, adds what
// is computed a second time. MFU + recomputation = HFU.
// References: Chowdhery et al. 2022 (PaLM), appendix B; Korthikanti et al. 2022, section 6.3.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "yotta/machine/chip.hpp"
#include "yotta/machine/trace.hpp"

namespace yotta {

// In the order of the lines.
enum class Loss : uint8_t {
  launch,         // overhead of operations
  between,        // the rank's code between operations, as far as a clock sees it
  memory,         // operations that wait for memory
  wider,          // matrix products in a type whose peak is lower than the one counted against
  clock,          // all chips are slower than the roofline: kernels, clock
  straggler,      // some are, or now and then
  communication,  // waited for messages, by their labels
  bubble,         // waited for work of another rank
  recomputation,  // matrix products beyond the model's
};
inline constexpr int loss_kinds = 9;
inline std::string text_of(Loss loss) {
  constexpr const char* texts[loss_kinds] = {
      "launch gaps: overhead of operations",
      "between operations",
      "bound by memory (norms, activations, optimizer)",
      "a type with a lower peak",
      "kernels and clock slower than the roofline",
      "stragglers: slower than other chips",
      "exposed communication",
      "bubble: waiting for another rank's work",
      "recomputation",
  };
  return texts[static_cast<int>(loss)];
}

// What FLOPs are counted against.
struct MfuMachine {
  double peak = 1;                // FLOP/s of one rank
  std::optional<Chip> chip = {};  // none: nothing else is known, as of the computer that you sit at
};
inline MfuMachine mfu_machine(const Chip& chip, DType dtype) {
  return {yotta::peak(chip, dtype), chip};
}

struct LostTime {
  Loss loss;
  std::string name;  // of communication: its label
  double seconds;    // of all ranks together
};

struct Waterfall {
  double peak = 1;  // FLOP/s of one rank
  int ranks = 0;
  double seconds = 0;      // of the run
  double model_flops = 0;  // of all ranks
  std::vector<LostTime> lost = {};

  double all() const { return ranks * seconds; }
  double mfu() const { return model_flops / peak / all(); }
  double hfu() const { return mfu() + share(Loss::recomputation); }
  // of all()
  double share(Loss loss) const {
    double sum = 0;
    for (const LostTime& each : lost)
      if (each.loss == loss) sum += each.seconds;
    return sum / all();
  }
  void add(Loss loss, double more, std::string_view name = {}) {
    for (LostTime& each : lost)
      if (each.loss == loss && each.name == name) {
        each.seconds += more;
        return;
      }
    lost.push_back({loss, std::string(name), more});
  }

  // In the order of Loss; of communication the longest first.
  std::vector<LostTime> lines() const {
    std::vector<LostTime> sorted = lost;
    std::sort(sorted.begin(), sorted.end(), [](const LostTime& a, const LostTime& b) {
      if (a.loss != b.loss) return a.loss < b.loss;
      return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name;
    });
    return sorted;
  }
};

// One line for each loss of 0.05% and more, in the order above; a last one for the smaller ones.
inline std::string waterfall_text(const Waterfall& waterfall) {
  const auto line = [&](double share, const std::string& what) {
    return fmt::format("{:>7.1f}%  {}\n", 100 * share, what);
  };
  std::string text = line(1, fmt::format("peak: {} rank{} of {:.5g} TFLOP/s", waterfall.ranks,
                                         waterfall.ranks == 1 ? "" : "s", waterfall.peak / 1e12));
  double small = 0;
  for (const LostTime& each : waterfall.lines()) {
    const double share = each.seconds / waterfall.all();
    const bool shown = std::abs(share) >= 0.0005;
    if (!shown) small += share;
    const bool less = each.loss == Loss::recomputation && share < 0;
    const std::string what = less
                                 ? "counted for the model, but not computed"
                                 : text_of(each.loss) + (each.name.empty() ? "" : ": " + each.name);
    if (shown) text += line(-share, what);
  }
  if (std::abs(small) >= 0.0005) text += line(-small, "what is less than 0.05% each");
  return text + line(waterfall.mfu(),
                     fmt::format("MFU: FLOPs of the model (HFU {:.1f}%)", 100 * waterfall.hfu()));
}

// ---- what a trace says ----

// By an operation's name. All other operations read and write more than they compute.
inline bool is_matrix_product(std::string_view op) {
  return op.starts_with("linear") || op.starts_with("grouped_linear") || op.starts_with("matmul") ||
         (op.find("attention") != op.npos && op != "attention_merge");
}

namespace detail {

template <class Visit>
void each_matrix_product(const Trace& trace, Visit visit) {
  for (const std::vector<TraceEvent>& rank : trace.ranks)
    for (const TraceEvent& event : rank)
      if (event.kind == EventKind::op && is_matrix_product(event.name)) visit(event);
}

}  // namespace detail

// The FLOPs of matrix products that all ranks have computed.
inline double matrix_flops(const Trace& trace) {
  double flops = 0;
  detail::each_matrix_product(trace, [&](const TraceEvent& op) { flops += op.flops; });
  return flops;
}

// The type of most of these FLOPs; f32 if there are none.
inline DType matrix_dtype(const Trace& trace) {
  std::map<DType, double> flops;
  detail::each_matrix_product(trace, [&](const TraceEvent& op) { flops[op.dtype] += op.flops; });
  DType most = DType::f32;
  for (const auto& [dtype, of_type] : flops)
    if (of_type > flops[most]) most = dtype;
  return most;
}

// When each of `steps` training steps has ended on all ranks: a step ends with the optimizer.
// Errors: the trace has no such number of steps.
inline std::vector<double> step_ends(const Trace& trace, int64_t steps,
                                     Where where = Where::current()) {
  std::vector<double> ends(static_cast<size_t>(steps), 0);
  bool found = false;
  for (const std::vector<TraceEvent>& rank : trace.ranks) {
    std::vector<double> updates;
    for (const TraceEvent& event : rank)
      if (event.kind == EventKind::op && (event.name == "adamw" || event.name == "sgd"))
        updates.push_back(event.end);
    if (steps < 1 || std::ssize(updates) % steps != 0)
      fail(where, "the trace has {} updates of the optimizer on a rank, which are not {} steps",
           updates.size(), steps);
    const auto each = updates.size() / static_cast<size_t>(steps);  // as many as it has parameters
    for (size_t step = 0; each > 0 && step < ends.size(); ++step)
      ends[step] = std::max(ends[step], updates[(step + 1) * each - 1]);
    found = found || each > 0;
  }
  if (!found) fail(where, "the trace has no updates of an optimizer, so it has no training steps");
  return ends;
}

}  // namespace yotta
