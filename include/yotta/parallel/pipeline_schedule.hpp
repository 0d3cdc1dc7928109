// Pipeline schedules: the model's layers are cut into stages, one after another on p ranks, and the
// batch into m microbatches. A schedule says in which order each rank works. It is data: lists of
// actions, which can be printed, drawn, timed and checked without any rank; pipeline.hpp runs them.
//
// Letters: p ranks, m microbatches, v chunks per rank; stage s is on rank r = s mod p (in the
// loop placement). F is the
// forward pass of a stage for one microbatch, B the whole backward pass. B has two halves: I
// (dgrad) makes the gradient that the stage before waits for, W (wgrad) those of the stage's
// weights. These are PyTorch's letters; the zero-bubble papers say B for I.
//
//     p = 4, m = 4, B takes twice as long as F           time ->
//     GPipe     rank 0   F0 F1 F2 F3 .. .. .. .. .. .. .. .. .. B0--- B1--- B2--- B3---
//               rank 1   .. F0 F1 F2 F3 .. .. .. .. .. .. B0--- B1--- B2--- B3--- .. ..
//               rank 2   .. .. F0 F1 F2 F3 .. .. .. B0--- B1--- B2--- B3--- .. .. .. ..
//               rank 3   .. .. .. F0 F1 F2 F3 B0--- B1--- B2--- B3--- .. .. .. .. .. ..
//     1F1B      rank 0   F0 F1 F2 F3 .. .. .. .. .. .. B0--- .. B1--- .. B2--- .. B3---
//               rank 1   .. F0 F1 F2 .. .. .. .. B0--- F3 B1--- .. B2--- .. B3--- .. ..
//               rank 2   .. .. F0 F1 .. .. B0--- F2 B1--- F3 B2--- .. B3--- .. .. .. ..
//               rank 3   .. .. .. F0 B0--- F1 B1--- F2 B2--- F3 B3--- .. .. .. .. .. ..
//
// The idle places are the bubble: filling and draining cost each rank (p-1) (F+B), whatever m is.
// 1F1B has GPipe's bubble; it runs each microbatch backward as soon as it can, so fewer are in
// flight and need memory. Interleaving gives each rank v chunks of the model, p stages apart:
// filling then takes p - 1 *chunks'* time.
//
//                   bubble / total    in flight on rank r                   messages per microbatch
//     naive         (p-1)/p           1                                     2 (p-1)
//     GPipe         (p-1)/(m+p-1)     m                                     2 (p-1)
//     1F1B          (p-1)/(m+p-1)     min(p-r, m)                           2 (p-1)
//     interleaved   (p-1)/(v m+p-1)   2(p-1-r) + (v-1)p + 1 chunks of 1/v   2 (v p-1)
//
// What a rank receives and sends follows from the action (pipeline.hpp).
//
// Where the stages lie, on p = 4 ranks:
//
//                     rank 0   1     2     3
//     loop            0 4      1 5   2 6   3 7    v chunks per rank: stage s on rank s mod p
//     vee             0 7      1 6   2 5   3 4    down the ranks and up again: both ends on rank 0
//     both_ways       0 3      1 2   2 1   3 0    the model twice: half of the microbatches go down
//                                                 the ranks, the other half up
//
// Contract: any p >= 1 and m >= 1; v > 1 only if interleaved. With m < p it runs, but ranks stay
// idle. The formulas are for equal stages, and the interleaved ones for m a multiple of p.
// References: Huang et al. (2019), GPipe; Narayanan et al. (2019), PipeDream (1F1B); Narayanan et
// al. (2021), Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM
// (interleaving; section 2.2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

// ---- actions ----
//
//     "1B0"      stage 1, B, microbatch 0
//     "0F3&"     stage 0, F, microbatch 3, together with the B that follows it in the list

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

// Whether both take the same message: F takes one from the stage before, B or I one from the stage
// after.
constexpr bool same_message(const PipelineAction& a, const PipelineAction& b) {
  return a.stage == b.stage && a.microbatch == b.microbatch && a.op != PipelineOp::W &&
         b.op != PipelineOp::W && (a.op == PipelineOp::F) == (b.op == PipelineOp::F);
}

// ---- one rank's actions ----

// Naive model parallelism: one microbatch after the other all the way, so one rank works at a time.
inline PipelineActions naive_actions(int rank, int /*p*/, int64_t m) {
  PipelineActions actions;
  for (int64_t i = 0; i < m; ++i) {
    actions.push_back({rank, PipelineOp::F, i});
    actions.push_back({rank, PipelineOp::B, i});
  }
  return actions;
}

// GPipe: all forward, then all backward.
inline PipelineActions gpipe_actions(int rank, int /*p*/, int64_t m) {
  PipelineActions actions;
  for (int64_t i = 0; i < m; ++i) actions.push_back({rank, PipelineOp::F, i});
  for (int64_t i = 0; i < m; ++i) actions.push_back({rank, PipelineOp::B, i});
  return actions;
}

// 1F1B, in three phases:
//     warm-up         p - 1 - rank F (at most m): microbatch 0 has as many stages to go through
//                     before its B can come back
//     steady state    one F, one B in turn until all F are done: p - rank in flight after each F
//     cool-down       the B that are left
inline PipelineActions one_f_one_b_actions(int rank, int p, int64_t m) {
  PipelineActions actions;
  const int64_t warm_up = std::min<int64_t>(p - 1 - rank, m);
  int64_t next_f = 0, next_b = 0;
  while (next_f < warm_up) actions.push_back({rank, PipelineOp::F, next_f++});
  while (next_f < m) {
    actions.push_back({rank, PipelineOp::F, next_f++});
    actions.push_back({rank, PipelineOp::B, next_b++});
  }
  while (next_b < m) actions.push_back({rank, PipelineOp::B, next_b++});
  return actions;
}

// Interleaved 1F1B: the rank's v chunks take turns, p microbatches at a time, forward from the
// first chunk to the last, backward from the last to the first. Rank 0 of p = 2, v = 2, m = 4:
//     warm-up         0F0 0F1 2F0 2F1
//     steady state    0F2 2B0  0F3 2B1  2F2 0B0  2F3 0B1
//     cool-down       2B2 2B3 0B2 0B3
// Warm-up: (v-1) p F until the last chunk's turn, then 2 (p-1-rank) more, while microbatch 0 goes
// on to the last rank and its B comes back. If p does not divide m, the last turn's places stay
// empty.
inline PipelineActions interleaved_actions(int rank, int p, int64_t m, int v) {
  if (v == 1) return one_f_one_b_actions(rank, p, m);
  PipelineActions actions;
  const int64_t round = int64_t{p} * v;                  // p microbatches through v chunks
  const int64_t all = (m + p - 1) / p * round;           // F, and as many B
  const auto add = [&](PipelineOp op, int64_t number) {  // the rank's number-th F or B
    const int64_t turn = number % round / p, chunk = op == PipelineOp::F ? turn : v - 1 - turn;
    const int64_t microbatch = number / round * p + number % p;
    if (microbatch < m) actions.push_back({static_cast<int>(chunk) * p + rank, op, microbatch});
  };
  const int64_t warm_up = std::min<int64_t>(2 * (p - 1 - rank) + int64_t{v - 1} * p, all);
  for (int64_t i = 0; i < warm_up; ++i) add(PipelineOp::F, i);
  for (int64_t i = warm_up; i < all; ++i) {
    add(PipelineOp::F, i);
    add(PipelineOp::B, i - warm_up);
  }
  for (int64_t i = all - warm_up; i < all; ++i) add(PipelineOp::B, i);
  return actions;
}

// The most pairs (chunk, microbatch) of a rank that are in flight at once: F has run, B (or W) has
// not. Each needs a Saved, the memory of what its backward pass will read (nn/saved.hpp).
inline int64_t most_in_flight(const PipelineActions& actions) {
  int64_t most = 0;
  int64_t live = 0;
  for (const PipelineAction& each : actions) {
    if (each.op == PipelineOp::F) most = std::max(most, ++live);
    if (each.op == PipelineOp::B || each.op == PipelineOp::W) --live;
  }
  return most;
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
  int ranks = 1, stages = 1;  // p; p v, or p if both_ways
  int64_t microbatches = 0;   // m
  std::vector<PipelineActions> by_rank;
  Placement placement = Placement::loop;
  // Empty, unless work was moved off a rank that is gone (resilience/rerouted_pipeline.hpp): then
  // stage s of microbatch i runs on rank routes[s m + i].
  std::vector<int> routes = {};

  // Chunks of the model on each rank.
  int chunks() const {
    if (!routes.empty()) return 1;
    return placement == Placement::both_ways ? 2 : stages / ranks;
  }
  // Which of its rank's chunks a stage is. both_ways: each stage lies on two ranks, and the first
  // half of the microbatches takes chunk 0.
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

// The first four are made here; pipeline_kinds.hpp makes the others too.
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

// The schedule of p ranks and m microbatches; v chunks per rank if it is interleaved.
inline PipelineSchedule make_schedule(PipelineKind kind, int p, int64_t m, int v = 1,
                                      Where where = Where::current()) {
  if (p < 1 || m < 1 || v < 1)
    fail(where, "a pipeline of {} ranks, {} microbatches, {} chunks per rank: at least 1 each", p,
         m, v);
  if (v > 1 && kind != PipelineKind::interleaved)
    fail(where, "{} has one chunk per rank, not {}; use PipelineKind::interleaved", name(kind), v);
  PipelineSchedule made{name(kind), p, p * v, m, {}};
  for (int rank = 0; rank < p; ++rank) {
    switch (kind) {
      case PipelineKind::naive: made.by_rank.push_back(naive_actions(rank, p, m)); break;
      case PipelineKind::gpipe: made.by_rank.push_back(gpipe_actions(rank, p, m)); break;
      case PipelineKind::one_f_one_b:
        made.by_rank.push_back(one_f_one_b_actions(rank, p, m));
        break;
      case PipelineKind::interleaved:
        made.by_rank.push_back(interleaved_actions(rank, p, m, v));
        break;
      default: fail(where, "{}: pipeline_kinds.hpp makes it", name(kind));
    }
  }
  return made;
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

// What most_in_flight returns for these (GPipe: m). Interleaved: in chunks, if p divides m.
constexpr int64_t in_flight_1f1b(int rank, int p, int64_t m) {
  return std::min<int64_t>(p - rank, m);
}
constexpr int64_t in_flight_interleaved(int rank, int p, int64_t m, int v) {
  if (v == 1) return in_flight_1f1b(rank, p, m);
  return std::min<int64_t>(2 * (p - 1 - rank) + int64_t{v - 1} * p + 1, m * v);
}

}  // namespace yotta
