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
  int64_t critical_batch = 0;  // tokens from which larger batches no longer help; 0: not known

  // Sequences of the batch that is planned with: of `tokens`, or of the critical batch if it is
  // smaller.
  YOTTA_API int64_t batch() const;
  // Errors: a batch of no sequence, a torus, a model that cannot be.
  YOTTA_API void check(Where where = Where::current()) const;
};

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
};
// The same as run_described and estimate_step take it.
YOTTA_API DescribedStep described(const PlanRequest& request, const Layout& layout);
// Gradients travel by buckets: DDP's small enough to leave early, ZeRO's as large as can be.
constexpr int64_t bucket_bytes_of(const Layout& layout) {
  return layout.zero > 0 ? int64_t{1} << 30 : int64_t{25} << 20;
}
// "tp 8 sp, pp 16 interleaved 1F1B x4, dp 128 ZeRO-1, 16 microbatches, first block recomputed"
YOTTA_API std::string text_of(const Layout& layout);

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <fmt/format.h>

#include <algorithm>

namespace yotta {

int64_t PlanRequest::batch() const {
  const int64_t most = critical_batch > 0 ? std::min(tokens, critical_batch) : tokens;
  return most / sequence;
}

void PlanRequest::check(Where where) const {
  config.check(where);
  if (sequence < 1) fail(where, "a sequence of {} tokens: it has at least one", sequence);
  if (critical_batch < 0)
    fail(where, "a critical batch of {} tokens: give a number above 0, or none", critical_batch);
  if (batch() < 1)
    fail(where, "a batch of {} tokens has no sequence of {} tokens", tokens, sequence);
  if (config.mixture.experts > 0)
    fail(where, "there is no formula for mixtures of experts: plans are for dense models");
  if (!cluster.torus.empty())
    fail(where, "{} is a torus: plans are for clusters with switches, as h100x64", cluster.name);
  if (cluster.size() > 1 << 20)
    fail(where, "{} has {} chips: plans are for up to 2^20", cluster.name, cluster.size());
}

DescribedStep described(const PlanRequest& request, const Layout& layout) {
  DescribedStep step;
  step.config = request.config;
  step.config.context = std::max(step.config.context, request.sequence);
  step.shape = layout.shape;
  step.batch = request.batch();
  step.efficiency = request.efficiency;
  NdOptions& o = step.options;
  o.sequence = request.sequence;
  o.microbatches = layout.microbatches;
  o.schedule = layout.schedule, o.chunks = layout.chunks;
  o.context = layout.context;
  o.sequence_parallel = layout.sequence_parallel, o.pieces = layout.pieces;
  o.zero.stage = layout.zero;
  o.zero.bucket_bytes = o.ddp.bucket_bytes = bucket_bytes_of(layout);
  o.checkpoint.what = layout.recomputed == 0 ? Recompute::none : Recompute::all;
  o.checkpoint_blocks = layout.recomputed;
  return step;
}

std::string text_of(const Layout& layout) {
  const MeshShape& shape = layout.shape;
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (shape.tp > 1)
    add(fmt::format("tp {}{}", shape.tp,
                    layout.pieces != Pieces::none ? " async"
                    : layout.sequence_parallel    ? " sp"
                                                  : ""));
  if (shape.cp > 1)
    add(fmt::format("cp {} {}", shape.cp,
                    layout.context == ContextParallel::ring ? "ring" : "ulysses"));
  if (shape.pp > 1)
    add(fmt::format("pp {} {}{}", shape.pp, name(layout.schedule),
                    layout.chunks > 1 ? fmt::format(" x{}", layout.chunks) : ""));
  if (shape.ep > 1) add(fmt::format("ep {}", shape.ep));
  if (shape.dp_shard > 1) add(fmt::format("fsdp {}", shape.dp_shard));
  if (shape.dp_replicate > 1)
    add(fmt::format("dp {}{}", shape.dp_replicate, layout.zero > 0 ? " ZeRO-1" : ""));
  if (text.empty()) add("1 chip");
  add(fmt::format("{} microbatch{}", layout.microbatches, layout.microbatches > 1 ? "es" : ""));
  if (layout.recomputed != 0)
    add(layout.recomputed < 0    ? "all recomputed"
        : layout.recomputed == 1 ? "first block recomputed"
                                 : fmt::format("first {} blocks recomputed", layout.recomputed));
  return text;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
