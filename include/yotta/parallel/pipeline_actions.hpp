// What a pipeline's ranks do, as data: actions, each rank's list of them, and schedules.
//
//     "1B0"      stage 1, B, microbatch 0
//     stage s    is on rank s mod p; with v chunks a rank there are v p stages
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
  bool operator==(const PipelineAction&) const = default;
};
using PipelineActions = std::vector<PipelineAction>;  // of one rank, in order

YOTTA_API std::string str(const PipelineAction& action);    // "1B0"
YOTTA_API std::string str(const PipelineActions& actions);  // "0F0 0F1 0B0 0B1"

// ---- all ranks' ----

struct PipelineSchedule {
  std::string name;
  int ranks = 1, stages = 1;  // p, p v
  int64_t microbatches = 0;   // m
  std::vector<PipelineActions> by_rank;

  int rank_of(int stage) const { return stage % ranks; }
};

enum class PipelineKind : uint8_t { naive, gpipe, one_f_one_b, interleaved };
constexpr const char* name(PipelineKind kind) {
  constexpr const char* names[] = {"naive", "GPipe", "1F1B", "interleaved 1F1B"};
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

#if YOTTA_BODIES_OF(parallel_pipeline)

std::string str(const PipelineAction& action) {
  return fmt::format("{}{}{}", action.stage, "FBIW"[static_cast<int>(action.op)],
                     action.microbatch);
}
std::string str(const PipelineActions& actions) {
  std::string text;
  for (const PipelineAction& each : actions) text += (text.empty() ? "" : " ") + str(each);
  return text;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
