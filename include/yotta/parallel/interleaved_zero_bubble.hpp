// Interleaved zero bubble: ZB-H1 with v chunks of the model on each rank.
//
//     p = 2, m = 2, v = 2
//     rank 0   0F0 0F1 2F0 2F1 ... 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1
//     rank 1   ... 1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1
//
// Interleaving makes the bubble's unit a chunk in place of a stage, and putting W off shortens it
// from F + I + W to F + I - W of that unit. As in ZB-H1 rank r starts W r turns after I. Its F run
// ahead of I by (v-1)p + p-1-r turns; in interleaved 1F1B it is (v-1)p + 2(p-1-r), because B takes
// longer to come back than I.
//
//                       idle, in units of a chunk's F, I, W      held at most, in chunks
//     interleaved 1F1B  (p-1)(F + I + W)                         2(p-1-r) + (v-1)p + 1
//     interleaved ZB    (p-1)(F + I - W)                         v p, as many as 1F1B
//
// Contract: stage s on rank s mod p. The formulas hold for m mod p = 0 and W <= I, F; any p, m and
// v run. With v = 1 it is ZB-H1.
// References: Qi et al. (2023), Zero Bubble Pipeline Parallelism, arXiv 2401.10241; Narayanan et
// al. (2021), Megatron-LM, section 2.2.
#pragma once

#include "yotta/parallel/zero_bubble.hpp"

namespace yotta {

// A rank's actions.
inline PipelineActions interleaved_zb_actions(int rank, int p, int64_t m, int v) {
  PipelineActions actions;
  const int64_t round = int64_t{p} * v;                  // p microbatches through v chunks
  const int64_t all = (m + p - 1) / p * round;           // F, and as many I and W
  const auto add = [&](PipelineOp op, int64_t number) {  // the rank's number-th F, I or W
    if (number < 0 || number >= all) return;
    const int64_t turn = number % round / p, chunk = op == PipelineOp::F ? turn : v - 1 - turn;
    const int64_t microbatch = number / round * p + number % p;
    if (microbatch < m) actions.push_back({static_cast<int>(chunk) * p + rank, op, microbatch});
  };
  const int64_t ahead = p - 1 - rank + int64_t{v - 1} * p;
  for (int64_t turn = 0; turn < all + ahead + rank; ++turn) {
    add(PipelineOp::F, turn);
    add(PipelineOp::I, turn - ahead);
    add(PipelineOp::W, turn - ahead - rank);
  }
  return actions;
}

// All ranks'. Errors: p, m or v below 1.
inline PipelineSchedule interleaved_zb_schedule(int p, int64_t m, int v,
                                                Where where = Where::current()) {
  if (p < 1 || m < 1 || v < 1)
    fail(where, "a pipeline of {} ranks, {} microbatches, {} chunks per rank: at least 1 each", p,
         m, v);
  PipelineSchedule made{name(PipelineKind::interleaved_zb), p, p * v, m, {}};
  for (int rank = 0; rank < p; ++rank)
    made.by_rank.push_back(interleaved_zb_actions(rank, p, m, v));
  return made;
}

}  // namespace yotta
