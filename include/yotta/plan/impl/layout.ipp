// The bodies of plan/layout.hpp.
#pragma once

#include "yotta/plan/layout.hpp"

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

YOTTA_INLINE int64_t PlanRequest::batch() const {
  const int64_t most = critical_batch > 0 ? std::min(tokens, critical_batch) : tokens;
  return most / sequence;
}

YOTTA_INLINE void PlanRequest::check(Where where) const {
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
  if (config.dialect == Dialect::gpt2 && sequence > config.context)
    fail(where,
         "a sequence of {} tokens for a model that has learned {} positions: give {} tokens at "
         "most, or the config.json of a longer model",
         sequence, config.context, config.context);
  if (!(reserve >= 0 && reserve < cluster.chip.memory))
    fail(where, "{:.3g} GB of a chip are to stay free, and it has {:.3g} GB", reserve / 1e9,
         cluster.chip.memory / 1e9);
  if (!cluster.torus.empty())
    fail(where, "{} is a torus: plans are for clusters with switches, as h100x64", cluster.name);
  if (cluster.size() > 1 << 20)
    fail(where, "{} has {} chips: plans are for up to 2^20", cluster.name, cluster.size());
}

YOTTA_INLINE DescribedStep described(const PlanRequest& request, const Layout& layout) {
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
  if (chunks_loss(request, layout)) o.loss_tokens = request.loss_tokens;
  if (layout.again == Again::attention) o.checkpoint.what = Recompute::attention;
  o.ends_count = layout.ends_count, o.fsdp.reshard_after_forward = !layout.keeps_units;
  step.operators_again = layout.again == Again::operators;
  step.wide_loss = request.wide_loss, step.by_matrix = request.by_matrix;
  step.one_ring = request.one_ring, step.technique = request.technique;
  step.pp_outermost = layout.pp_outermost;
  step.gradients_ahead = request.gradients_ahead;
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
  add(layout.pp_outermost, "pp outermost");
  if (words.empty()) words.push_back("1 chip");
  if (layout.zero > 0) words.back() += fmt::format(" ZeRO-{}", layout.zero);  // cp, ep and dp
  return words;
}

}  // namespace detail

YOTTA_INLINE std::string text_of(const Layout& layout) {
  std::vector<std::string> words = detail::words_of_axes(layout);
  words.push_back(
      fmt::format("{} microbatch{}", layout.microbatches, layout.microbatches > 1 ? "es" : ""));
  if (layout.keeps_units) words.push_back("units kept");
  if (layout.again == Again::attention) words.push_back("attention recomputed");
  if (layout.again == Again::operators) words.push_back("operators recomputed");
  if (layout.recomputed < 0) words.push_back("all recomputed");
  if (layout.recomputed == 1) words.push_back("first block recomputed");
  if (layout.recomputed > 1)
    words.push_back(fmt::format("first {} blocks recomputed", layout.recomputed));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace yotta
