// Pipeline schedules: the model's layers are cut into stages, one after another on p ranks, and the
// batch into m microbatches. A schedule says in which order each rank works. It is data: lists of
// actions, which can be printed, drawn, timed and checked without any rank; pipeline.hpp runs them.
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
// The idle places are the bubble: filling and draining takes p - 1 stages' time, whatever m is.
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
// Letters: p ranks, m microbatches, v chunks per rank; stage s is on rank r = s mod p. F forward, B
// backward. B has two halves: I (dgrad) makes the gradient that the stage before waits for, W
// (wgrad) those of the stage's weights. They are PyTorch's letters; the zero-bubble papers say B
// for I. "1B0" is stage 1, B, microbatch 0.
// Contract: any p, m >= 1 and v; m < p leaves ranks idle. The formulas take equal stages;
// interleaving's m mod p = 0.
// References: Huang et al. (2019), GPipe; Narayanan et al. (2019), PipeDream (1F1B); Narayanan et
// al. (2021), Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM
// (interleaving; section 2.2).
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

// ---- one rank's actions ----

// Naive model parallelism: one microbatch after the other all the way, so one rank works at a time.
YOTTA_API PipelineActions naive_actions(int rank, int p, int64_t m);
// GPipe: all forward, then all backward.
YOTTA_API PipelineActions gpipe_actions(int rank, int p, int64_t m);
// 1F1B, in three phases:
//     warm-up         p - 1 - rank F (at most m): microbatch 0 has as many stages to go through
//                     before its B can come back
//     steady state    one F, one B in turn until all F are done: p - rank in flight after each F
//     cool-down       the B that are left
YOTTA_API PipelineActions one_f_one_b_actions(int rank, int p, int64_t m);
// Interleaved 1F1B: the rank's v chunks take turns, p microbatches at a time, forward from the
// first chunk to the last and backward from the last to the first. If p does not divide m, the last
// turn's places stay empty.
YOTTA_API PipelineActions interleaved_actions(int rank, int p, int64_t m, int v);

// The most microbatches of a rank that are in flight at once: F has run, B (or W) has not. Each
// needs a Saved, the memory of what its backward pass will read (nn/saved.hpp).
YOTTA_API int64_t most_in_flight(const PipelineActions& actions);

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

// The schedule of p ranks and m microbatches; v chunks per rank if it is interleaved.
YOTTA_API PipelineSchedule make_schedule(PipelineKind kind, int p, int64_t m, int v = 1,
                                         Where where = Where::current());

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

PipelineActions naive_actions(int rank, int /*p*/, int64_t m) {
  PipelineActions actions;
  for (int64_t i = 0; i < m; ++i) {
    actions.push_back({rank, PipelineOp::F, i});
    actions.push_back({rank, PipelineOp::B, i});
  }
  return actions;
}

PipelineActions gpipe_actions(int rank, int /*p*/, int64_t m) {
  PipelineActions actions;
  // exercise 18.1: rank's actions, in order
  for (int64_t i = 0; i < m; ++i) actions.push_back({rank, PipelineOp::F, i});
  for (int64_t i = 0; i < m; ++i) actions.push_back({rank, PipelineOp::B, i});
  // end of exercise 18.1
  return actions;
}

PipelineActions one_f_one_b_actions(int rank, int p, int64_t m) {
  PipelineActions actions;
  // exercise 18.2: warm-up, steady state, cool-down
  const int64_t warm_up = std::min<int64_t>(p - 1 - rank, m);
  int64_t next_f = 0, next_b = 0;
  while (next_f < warm_up) actions.push_back({rank, PipelineOp::F, next_f++});
  while (next_f < m) {
    actions.push_back({rank, PipelineOp::F, next_f++});
    actions.push_back({rank, PipelineOp::B, next_b++});
  }
  while (next_b < m) actions.push_back({rank, PipelineOp::B, next_b++});
  // end of exercise 18.2
  return actions;
}

PipelineActions interleaved_actions(int rank, int p, int64_t m, int v) {
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

int64_t most_in_flight(const PipelineActions& actions) {
  int64_t most = 0;
  // exercise 18.3: count up and down along the list; I does not end a microbatch, W does
  int64_t live = 0;
  for (const PipelineAction& each : actions) {
    if (each.op == PipelineOp::F) most = std::max(most, ++live);
    if (each.op == PipelineOp::B || each.op == PipelineOp::W) --live;
  }
  // end of exercise 18.3
  return most;
}

PipelineSchedule make_schedule(PipelineKind kind, int p, int64_t m, int v, Where where) {
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
    }
  }
  return made;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
