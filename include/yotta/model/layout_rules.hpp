// Layout rules: how a model and a batch may be spread over a mesh, and what to say if they cannot
// be.
//
//   tp           divides the heads, the feed-forward width and the vocabulary
//   cp           cuts the sequence into 2 cp equal chunks; attention is blockwise; Ulysses: divides
//                the heads of tp
//   pp x chunks  at most one stage per block
//   dp           a sequence for each rank, with FSDP or ZeRO-2 one for each of its microbatches
//   ZeRO         not beside FSDP, which is its stage 3
//
// A layout that breaks a rule is refused before anything is built, with the rule and the nearest
// that keeps it. Letters: B sequences of a batch.
#pragma once

#include <optional>

#include "yotta/comm/mesh.hpp"
#include "yotta/model/config.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"
#include "yotta/parallel/zero.hpp"
#include "yotta/parallel/zero_bubble.hpp"

namespace yotta {

struct NdOptions {
  int64_t microbatches = 1;  // of each rank's share of the batch
  CheckpointOptions checkpoint = {.what = Recompute::none};
  PipelineKind schedule = PipelineKind::one_f_one_b;
  std::optional<ZeroBubble> zero_bubble = {};  // in place of `schedule`
  int chunks = 1;                              // stages per rank: interleaved
  ContextParallel context = ContextParallel::ring;
  FsdpOptions fsdp = {};
  ZeroOptions zero = {.stage = 0};  // 1 or 2: in place of DDP over cp and dp_replicate
  DdpOptions ddp = {};
  bool naive_gradients = false;  // in place of DDP: one all_reduce per parameter, after backward
};

// Throws unless `layers` blocks make stages for pp ranks.
YOTTA_API void expect_stages(int64_t layers, int pp, const NdOptions& options, Where where);

// Can cp ranks have two chunks each of the sequence?
YOTTA_API bool cuts_sequence(const TransformerConfig& config, int cp);

// Throws unless Ulysses can give each rank of cp whole heads, of those that tensor parallelism
// leaves to its rank.
YOTTA_API void expect_heads(const TransformerConfig& config, const MeshShape& shape, Where where);

// Throws if ZeRO is on and cannot be: it needs stage 1 or 2, no FSDP, and gradients in buckets.
YOTTA_API void expect_zero(const MeshShape& shape, const NdOptions& options, Where where);

// Throws, naming the rule and the nearest that works, if a model or a batch of B sequences cannot
// be spread this way.
YOTTA_API void expect_layout(const TransformerConfig& config, const MeshShape& shape, int64_t batch,
                             const NdOptions& options = {}, Where where = Where::current());

}  // namespace yotta

#if YOTTA_BODIES_OF(model)
#include <fmt/format.h>

#include <algorithm>

#include "yotta/model/transformer.hpp"

namespace yotta {

void expect_stages(int64_t layers, int pp, const NdOptions& options, Where where) {
  const int chunks = options.chunks;
  const bool interleaves =
      options.schedule == PipelineKind::interleaved && !options.zero_bubble.has_value();
  if (chunks < 1 || options.microbatches < 1)
    fail(where, "{} chunks per rank and {} microbatches: each is at least 1", chunks,
         options.microbatches);
  if (chunks > 1 && !interleaves)
    fail(where, "{} has one stage per rank, not {}. Nearest: 1 chunk, or interleaved 1F1B",
         options.zero_bubble ? name(*options.zero_bubble) : name(options.schedule), chunks);
  const int64_t stages = int64_t{pp} * chunks;
  if (stages == 1 || stages <= layers) return;
  const int64_t fewer = layers / pp;  // chunks that as many ranks can have
  const std::string nearest =
      fewer > 0    ? fmt::format("{} chunk{} per rank", fewer, fewer > 1 ? "s" : "")
      : chunks > 1 ? fmt::format("pp {}, 1 chunk per rank", std::max<int64_t>(1, layers))
                   : fmt::format("pp {}", std::max<int64_t>(1, layers));
  fail(where,
       "a pipeline of pp {} with {} stages per rank needs a block for each of {} stages, but the "
       "model has {} blocks. The nearest that works: {}",
       pp, chunks, stages, layers, nearest);
}

bool cuts_sequence(const TransformerConfig& config, int cp) {
  return cp == 1 || config.context % (int64_t{2} * cp) == 0;
}

void expect_heads(const TransformerConfig& config, const MeshShape& shape, Where where) {
  const int64_t heads = config.heads / shape.tp, kv_heads = config.kv_heads / shape.tp;
  const auto fits = [&](int cp) { return heads % cp == 0 && kv_heads % cp == 0; };
  if (fits(shape.cp)) return;
  int nearest = shape.cp;
  while (!fits(nearest) || !cuts_sequence(config, nearest)) --nearest;
  fail(
      where,
      "Ulysses gives each of {} ranks of cp whole heads, but {} query and {} key/value heads (on a "
      "rank of tp) are not both divisible by {}. The nearest that works: cp {}, or ring attention",
      shape.cp, heads, kv_heads, shape.cp, nearest);
}

void expect_zero(const MeshShape& shape, const NdOptions& options, Where where) {
  const int stage = options.zero.stage;
  if (stage == 0) return;
  if (stage != 1 && stage != 2)
    fail(where, "ZeRO stage {}: choose 1 or 2; stage 3 is FSDP, the axis fsdp", stage);
  if (shape.dp_shard > 1)
    fail(where,
         "FSDP over fsdp {} has already cut all that ZeRO-{} would cut, and the weights too. "
         "Nearest: fsdp without ZeRO, or dp {} with it",
         shape.dp_shard, stage, shape.dp_shard * shape.dp_replicate);
  if (options.naive_gradients)
    fail(where,
         "ZeRO-{} sums gradients in buckets and leaves each rank its part; one all_reduce per "
         "parameter is DDP's naive way. Nearest: gradients in buckets",
         stage);
}

void expect_layout(const TransformerConfig& config, const MeshShape& shape, int64_t batch,
                   const NdOptions& options, Where where) {
  config.check(where);
  expect_divides(config, shape.tp, where);
  if (!cuts_sequence(config, shape.cp)) {
    int nearest = shape.cp;
    while (!cuts_sequence(config, nearest)) --nearest;
    fail(where,
         "context parallelism cuts a sequence into 2 chunks for each of {} ranks, but {} tokens "
         "are not divisible by {}. The nearest that works: cp {}",
         shape.cp, config.context, int64_t{2} * shape.cp, nearest);
  }
  if (shape.cp > 1 && config.attention == AttentionKind::plain)
    fail(where, "context parallelism (cp {}) needs blockwise attention; plain works with cp 1",
         shape.cp);
  if (options.context == ContextParallel::ulysses) expect_heads(config, shape, where);
  if (options.checkpoint.what == Recompute::attention &&
      config.attention == AttentionKind::blockwise)
    fail(where,
         "recomputing attention drops its T x T probabilities, which blockwise attention never "
         "keeps: nothing would be saved. Nearest: plain attention, or recomputing all");
  expect_stages(config.layers, shape.pp, options, where);
  expect_zero(shape, options, where);
  const int64_t ranks = int64_t{1} * shape.dp_shard * shape.dp_replicate;
  const bool reduces_each =
      shape.dp_shard > 1 || (options.zero.stage == 2 && shape.dp_replicate > 1);
  const int64_t least = reduces_each ? options.microbatches : 1;
  if (batch / ranks < least)
    fail(where,
         "a batch of {} sequences does not give each of {} data-parallel ranks {}; the nearest "
         "batch "
         "is {}",
         batch, ranks, least == 1 ? "one" : fmt::format("its {} microbatches", least),
         ranks * least);
}

}  // namespace yotta
#endif  // YOTTA_BODIES
