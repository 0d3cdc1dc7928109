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
  double reserve = 0;          // bytes of a chip's memory that a plan leaves free

  // Sequences of the batch that is planned with: of `tokens`, or of the critical batch if it is
  // smaller.
  YOTTA_API int64_t batch() const;
  // Bytes of a chip that a layout may fill.
  double memory() const { return cluster.chip.memory - reserve; }
  // Errors: a batch of no sequence, a torus, a model that cannot be, or has too many blocks.
  YOTTA_API void check(Where where = Where::current()) const;
};

// More would take minutes: each block and each expert is gone through.
inline constexpr int64_t most_blocks = 1024, most_experts = 1024;
// What sums of sizes are sure to hold.
inline constexpr double most_planned_parameters = 1e15;
inline constexpr int64_t most_planned_sequence = int64_t{1} << 26;

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
// Schedules that run W apart from I.
constexpr bool splits_backward(PipelineKind kind) {
  return kind == PipelineKind::zb_h1 || kind == PipelineKind::zb_v;
}
// "tp 8 sp, pp 16 interleaved 1F1B x4, dp 128 ZeRO-1, 16 microbatches, first block recomputed"
YOTTA_API std::string text_of(const Layout& layout);

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace yotta {

namespace detail {
// parameters() of sizes whose products are above 2^63.
inline double about_parameters(const TransformerConfig& c) {
  const auto width = static_cast<double>(c.width), hidden = static_cast<double>(c.feed_forward);
  const auto experts = static_cast<double>(std::max<int64_t>(1, c.mixture.experts));
  return static_cast<double>(c.layers) * width * (4 * width + 3 * experts * hidden) +
         2 * static_cast<double>(c.vocabulary) * width;
}
}  // namespace detail

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
    fail(where, "a {} of {} tokens has no sequence of {} tokens: give at least that many",
         critical_batch > 0 && critical_batch < tokens ? "critical batch" : "batch",
         critical_batch > 0 ? std::min(tokens, critical_batch) : tokens, sequence);
  if (config.layers > most_blocks)
    fail(where, "a model of {} blocks: plans are for up to {}", config.layers, most_blocks);
  if (config.mixture.experts > most_experts)
    fail(where, "a mixture of {} experts: plans are for up to {}", config.mixture.experts,
         most_experts);
  if (const double all = detail::about_parameters(config); all > most_planned_parameters)
    fail(where, "a model of some {:.2g} parameters: plans are for up to {:.0e}", all,
         most_planned_parameters);
  if (sequence > most_planned_sequence)
    fail(where, "a sequence of {} tokens: plans are for up to {}", sequence, most_planned_sequence);
  if (!(reserve >= 0 && reserve < cluster.chip.memory))
    fail(where, "{:.3g} GB of a chip are to stay free, and it has {:.3g} GB", reserve / 1e9,
         cluster.chip.memory / 1e9);
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

namespace detail {

inline std::vector<std::string> words_of_axes(const Layout& layout) {
  const MeshShape& shape = layout.shape;
  std::vector<std::string> words;
  const auto add = [&](bool given, std::string text) {
    if (given) words.push_back(std::move(text));
  };
  const char* const tokens = layout.pieces != Pieces::none ? " async"
                             : layout.sequence_parallel    ? " sp"
                                                           : "";
  const bool is_ring = layout.context == ContextParallel::ring;
  const std::string chunks = layout.chunks > 1 ? fmt::format(" x{}", layout.chunks) : "";
  add(shape.tp > 1, fmt::format("tp {}{}", shape.tp, tokens));
  add(shape.cp > 1, fmt::format("cp {} {}", shape.cp, is_ring ? "ring" : "ulysses"));
  add(shape.pp > 1, fmt::format("pp {} {}{}", shape.pp, name(layout.schedule), chunks));
  add(shape.ep > 1, fmt::format("ep {}", shape.ep));
  add(shape.dp_shard > 1, fmt::format("fsdp {}", shape.dp_shard));
  add(shape.dp_replicate > 1, fmt::format("dp {}", shape.dp_replicate));
  if (words.empty()) words.push_back("1 chip");
  if (layout.zero > 0) words.back() += " ZeRO-1";  // over cp, ep and dp
  return words;
}

}  // namespace detail

std::string text_of(const Layout& layout) {
  std::vector<std::string> words = detail::words_of_axes(layout);
  words.push_back(
      fmt::format("{} microbatch{}", layout.microbatches, layout.microbatches > 1 ? "es" : ""));
  if (layout.recomputed < 0) words.push_back("all recomputed");
  if (layout.recomputed == 1) words.push_back("first block recomputed");
  if (layout.recomputed > 1)
    words.push_back(fmt::format("first {} blocks recomputed", layout.recomputed));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace yotta
#endif  // YOTTA_BODIES
