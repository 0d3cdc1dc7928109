// Layout: what is to be trained on what, and one way to spread it over the chips.
//
//     request      model, cluster, tokens of a batch, tokens of a sequence
//     layout       tp 8 sp, pp 16 interleaved 1F1B x4, dp 128 ZeRO-1, 16 microbatches
//       └ described()      the step as run_described and estimate_step take it
//
// A layout has the choices that a plan is about and no others: buckets, prefetching and the like
// have one value each, which stands here.
// Contract: links of a cluster with switches. Letters: none.
#pragma once

#include <string>

#include "yotta/model/described_step.hpp"

namespace yotta {

// What is to be trained, and on what.
struct PlanRequest {
  TransformerConfig config;  // its dtype: of weights
  Cluster cluster;           // with switches
  int64_t tokens = 0;        // of a batch, over all chips
  int64_t sequence = 0;      // tokens of a sequence
  Efficiency efficiency = h100_kernels;
  bool wide_loss = false;        // from a copy of the logits in f32
  int64_t loss_tokens = 0;       // whose logits exist at once, where a layout can; 0: all
  bool by_matrix = false;        // FSDP's units: DescribedStep
  bool one_ring = false;         // of each group over nodes: plan_groups
  bool gradients_ahead = false;  // all of them are there from the first step on
  void (*technique)(Transformer&) = nullptr;  // of one's own, that all layers are given
  int64_t critical_batch = 0;  // tokens from which larger batches no longer help; 0: not known
  double reserve = 0;          // bytes of a chip's memory that a plan leaves free

  // Sequences of the batch that is planned with: of `tokens`, or of the critical batch if it is
  // smaller.
  int64_t batch() const;
  // Bytes of a chip that a layout may fill.
  double memory() const { return cluster.chip.memory - reserve; }
  // Errors: a batch of no sequence, a torus, a model that cannot be, or has too many blocks.
  void check(Where where = Where::current()) const;
};

// More would take minutes: each block and each expert is gone through.
inline constexpr int64_t most_blocks = 1024, most_experts = 1024;
// What sums of sizes are sure to hold.
inline constexpr double most_planned_parameters = 1e15;
inline constexpr int64_t most_planned_sequence = int64_t{1} << 26;

// What is run again in backward: blocks, as many as `recomputed` says; or parts of each block: the
// scores of plain attention, or all but every second product (plan/layer_figures.hpp).
enum class Again : uint8_t { blocks, attention, operators };

// One way to spread it.
struct Layout {
  MeshShape shape = {};
  bool sequence_parallel = false;
  Pieces pieces = Pieces::none;
  ContextParallel context = ContextParallel::ring;
  PipelineKind schedule = PipelineKind::one_f_one_b;
  int chunks = 1;
  int64_t microbatches = 1;
  int zero = 0;
  int64_t recomputed = 0;  // blocks of each stage; -1: all
  Again again = Again::blocks;
  bool pp_outermost = false;  // of the mesh: experts and replicas inside the pipeline's ranks
  bool ends_count = false;    // the embedding and the head count as blocks of the pipeline
  bool keeps_units = false;   // FSDP's units stay whole from forward to backward

  bool operator==(const Layout&) const = default;
};
// The same as run_described and estimate_step take it.
DescribedStep described(const PlanRequest& request, const Layout& layout);
// Gradients travel by buckets: DDP's and ZeRO-2's small enough to leave early, ZeRO-1's as large as
// can be.
constexpr int64_t bucket_bytes_of(const Layout& layout) {
  return layout.zero == 1 ? int64_t{1} << 30 : int64_t{25} << 20;
}
// Is the loss computed some tokens at a time? Not from a copy of all logits.
inline bool chunks_loss(const PlanRequest& request, const Layout& layout) {
  return request.loss_tokens > 0 && !request.wide_loss &&
         can_chunk_loss(layout.shape, layout.pieces);
}
// Schedules that run W apart from I.
constexpr bool splits_backward(PipelineKind kind) {
  return kind == PipelineKind::zb_h1 || kind == PipelineKind::zb_v;
}
// "tp 8 sp, pp 16 interleaved 1F1B x4, dp 128 ZeRO-1, 16 microbatches, first block recomputed"
std::string text_of(const Layout& layout);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/layout.ipp"
#endif
