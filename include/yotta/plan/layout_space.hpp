// Layout space: all ways in which a model can be spread over a cluster, and why others cannot.
//
//     axes         tp x cp x pp x ep x fsdp x dp = chips, each a divisor
//     tp           plain, sequence parallelism, Async-TP
//     cp           ring, Ulysses
//     order        with experts over several ranks: pp inside them, or outermost
//     pp           1F1B, interleaved 1F1B of 2, 4, 8, ... chunks, ZB-H1, ZB-V
//     fsdp, dp     DDP, ZeRO-1 or ZeRO-2 over dp; FSDP over fsdp, its units gathered twice or kept
//                  from forward to backward; both: HSDP
//     again        no block recomputed, the first of each stage, all
//     microbatch   1, 2, 4, ... sequences, as many as divide a rank's own
//
// Zero-bubble schedules go without recomputation, FSDP and ZeRO-2: they would undo what is split.
// Units are kept without recomputation alone: who lacks memory drops them first.
// A mesh that breaks a rule is refused as a whole, with the rule in one line. The machine's rules
// are here (tensor parallelism stays in a node); the model's are those of expect_layout.
// Letters: none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/plan/layout.hpp"

namespace yotta {

struct RefusedLayout {
  std::string layout, why;
};

struct LayoutSpace {
  // Those that keep all rules; memory is not asked for. Layouts that differ in their microbatches
  // alone stand side by side, the smallest microbatch first.
  std::vector<Layout> layouts;
  std::vector<RefusedLayout> refused;  // meshes that do not
};
LayoutSpace layout_space(const PlanRequest& request, Where where = Where::current());

// In smaller pieces attention is dominated by latency.
inline constexpr int64_t least_tokens = 512;  // of a sequence on a rank of cp

// Why a mesh cannot be, in one line; empty if it can.
std::string why_not(const PlanRequest& request, const MeshShape& shape);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/layout_space.ipp"
#endif
