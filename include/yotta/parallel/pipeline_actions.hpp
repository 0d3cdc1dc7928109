// What a pipeline's ranks do, as data: actions, each rank's list of them, and schedules.
//
//     "1B0"      stage 1, B, microbatch 0
//     "0F3&"     stage 0, F, microbatch 3, together with the B that follows it in the list
//
// Where the stages lie, on p = 4 ranks:
//
//                     rank 0   1     2     3
//     loop            0 4      1 5   2 6   3 7    v chunks per rank: stage s on rank s mod p
//     vee             0 7      1 6   2 5   3 4    down the ranks and up again: both ends on rank 0
//     both_ways       0 3      1 2   2 1   3 0    the model twice: half of the microbatches go down
//                                                 the ranks, the other half up
//
// F is forward, B backward. B has two halves: I (dgrad) makes the gradient that the stage before
// waits for, W (wgrad) those of the stage's weights. They are PyTorch's letters; the zero-bubble
// papers say B for I. pipeline_schedule.hpp makes schedules, pipeline_timeline.hpp times them,
// pipeline.hpp runs them.
//
//                   bubble / total    in flight on rank r
//     naive         (p-1)/p           1
//     GPipe         (p-1)/(m+p-1)     m
//     1F1B          (p-1)/(m+p-1)     min(p-r, m)
//     interleaved   (p-1)/(v m+p-1)   2(p-1-r) + (v-1)p + 1 chunks of 1/v
//
// Contract: the formulas take equal stages, and interleaving's m mod p = 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

enum class PipelineOp : uint8_t { F, B, I, W };

struct PipelineAction {
  int stage;
  PipelineOp op;
  int64_t microbatch;
  bool with_next = false;  // an F that runs together with the next action, a B: F&B
  bool operator==(const PipelineAction&) const = default;
};
using PipelineActions = std::vector<PipelineAction>;  // of one rank, in order

// "1B0"
inline std::string str(const PipelineAction& action) {
  return fmt::format("{}{}{}{}", action.stage, "FBIW"[static_cast<int>(action.op)],
                     action.microbatch, action.with_next ? "&" : "");
}

// "0F0 0F1 0B0 0B1"
inline std::string str(const PipelineActions& actions) {
  std::string text;
  for (const PipelineAction& each : actions) text += (text.empty() ? "" : " ") + str(each);
  return text;
}

// Whether both take the same message: F takes one from below, B or I one from above.
constexpr bool same_message(const PipelineAction& a, const PipelineAction& b) {
  return a.stage == b.stage && a.microbatch == b.microbatch && a.op != PipelineOp::W &&
         b.op != PipelineOp::W && (a.op == PipelineOp::F) == (b.op == PipelineOp::F);
}

// ---- where the stages lie ----

enum class Placement : uint8_t { loop, vee, both_ways };

// The stage that is chunk `chunk` of rank `rank`, of p.
constexpr int stage_on(Placement placement, int rank, int chunk, int p) {
  if (placement == Placement::loop || chunk == 0) return rank + chunk * p;
  return (placement == Placement::vee ? 2 : 1) * p - 1 - rank;
}

// ---- all ranks' ----

struct PipelineSchedule {
  std::string name;
  int ranks = 1, stages = 1;  // p, p v
  int64_t microbatches = 0;   // m
  std::vector<PipelineActions> by_rank;
  Placement placement = Placement::loop;
  // Where no placement says it, with one stage per rank: the rank of stage s and microbatch i is
  // routes[s m + i] (rerouted_pipeline.hpp).
  std::vector<int> routes = {};

  // Chunks of the model on each rank.
  int chunks() const {
    if (!routes.empty()) return 1;
    return placement == Placement::both_ways ? 2 : stages / ranks;
  }
  // Where a stage's work on a microbatch is done. Both ways: of two ranks, by the microbatch.
  int chunk_of(int stage, int64_t microbatch = 0) const {
    if (placement != Placement::both_ways) return stage / ranks;
    return 2 * microbatch < microbatches ? 0 : 1;
  }
  int rank_of(int stage, int64_t microbatch = 0) const {
    if (!routes.empty()) return routes[static_cast<size_t>(stage * microbatches + microbatch)];
    const bool back = placement != Placement::loop && chunk_of(stage, microbatch) == 1;
    return back ? ranks - 1 - stage % ranks : stage % ranks;
  }
};

enum class PipelineKind : uint8_t {
  naive,
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  zb_v,
  interleaved_zb,
  dual_pipe,
  dual_pipe_v,
  automatic
};
constexpr const char* name(PipelineKind kind) {
  constexpr const char* names[] = {"naive",    "GPipe",     "1F1B",     "interleaved 1F1B",
                                   "ZB-H1",    "ZB-H2",     "ZB-V",     "interleaved zero bubble",
                                   "DualPipe", "DualPipeV", "automatic"};
  return names[static_cast<int>(kind)];
}

// ---- costs, for equal stages ----

// Idle time, relative to the time that the work itself takes, and relative to the whole (Megatron,
// section 2.2).
constexpr double bubble_of_work(int p, int64_t m, int v = 1) {
  return static_cast<double>(p - 1) / static_cast<double>(v * m);
}
constexpr double bubble_of_total(int p, int64_t m, int v = 1) {
  return static_cast<double>(p - 1) / static_cast<double>(v * m + p - 1);
}

// What most_in_flight is: GPipe m. For interleaving in chunks, if p divides m.
constexpr int64_t in_flight_1f1b(int rank, int p, int64_t m) {
  return std::min<int64_t>(p - rank, m);
}
constexpr int64_t in_flight_interleaved(int rank, int p, int64_t m, int v) {
  if (v == 1) return in_flight_1f1b(rank, p, m);
  return std::min<int64_t>(2 * (p - 1 - rank) + int64_t{v - 1} * p + 1, m * v);
}

}  // namespace yotta
