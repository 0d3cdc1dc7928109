// Layout rules: how a model and a batch may be spread over a mesh, and what to say if they cannot be.
//
//     tp              divides the heads, the feed-forward width and the vocabulary
//     cp              cuts the sequence into 2 cp equal chunks; attention is blockwise
//     pp x chunks     at most one stage a block; a tied table and FSDP do not share a pipeline
//     dp              a sequence for each rank, with FSDP one for each of its microbatches
//
// A layout that breaks a rule is refused before anything is built, with the rule and the nearest that keeps it.
// Letters: B sequences of a batch.
#pragma once

#include "yotta/comm/mesh.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"

namespace yotta {

struct NdOptions {
  int64_t microbatches = 1;  // of each rank's share of the batch
  CheckpointOptions checkpoint = {.what = Recompute::none};
  PipelineKind schedule = PipelineKind::one_f_one_b;
  int chunks = 1;  // stages a rank: interleaved
  FsdpOptions fsdp = {};
  DdpOptions ddp = {};
  bool naive_gradients =
      false;  // one all_reduce a parameter, after backward, in place of DDP's buckets
};

// Throws unless `layers` blocks make stages for pp ranks.
inline void expect_stages(int64_t layers, int pp, const NdOptions& options, Where where) {
  const int chunks = options.chunks;
  if (chunks < 1 || options.microbatches < 1)
    fail(where, "{} chunks a rank and {} microbatches: each is at least 1", chunks,
         options.microbatches);
  if (chunks > 1 && options.schedule != PipelineKind::interleaved)
    fail(where, "{} has one stage a rank, not {}. Nearest: 1 chunk, or interleaved 1F1B",
         name(options.schedule), chunks);
  const int64_t stages = int64_t{pp} * chunks;
  if (stages == 1 || stages <= layers) return;
  const std::string nearest =
      pp > 1 && chunks <= layers ? fmt::format("pp {}", layers / chunks)
      : pp <= layers             ? fmt::format("{} chunks a rank", layers / pp)
                     : fmt::format("pp {}, 1 chunk a rank", std::max<int64_t>(1, layers));
  fail(where,
       "a pipeline of pp {} with {} stages a rank needs a block for each of {} stages, but the "
       "model has {} blocks. The nearest that works: {}",
       pp, chunks, stages, layers, nearest);
}

// Throws, naming the rule and the nearest that works, if a model or a batch of B sequences cannot be spread so.
inline void expect_layout(const TransformerConfig& config, const MeshShape& shape, int64_t batch,
                          const NdOptions& options = {}, Where where = Where::current()) {
  config.check(where);
  expect_divides(config, shape.tp, where);
  if (shape.cp > 1 && config.context % (2 * shape.cp) != 0) {
    int nearest = shape.cp;
    while (nearest > 1 && config.context % (2 * nearest) != 0) --nearest;
    fail(where,
         "context parallelism cuts a sequence into 2 chunks for each of {} ranks, but {} tokens do "
         "not "
         "divide by {}. The nearest that works: cp {}",
         shape.cp, config.context, 2 * shape.cp, nearest);
  }
  if (shape.cp > 1 && config.attention == AttentionKind::plain)
    fail(where, "context parallelism (cp {}) needs blockwise attention; plain works with cp 1",
         shape.cp);
  if (options.checkpoint.what == Recompute::attention &&
      config.attention == AttentionKind::blockwise)
    fail(where,
         "recomputing attention drops its T x T probabilities, which blockwise attention never "
         "keeps: nothing would be saved. Nearest: plain attention, or recomputing all");
  expect_stages(config.layers, shape.pp, options, where);
  const int stages = shape.pp * options.chunks;
  if (stages > 1 && shape.dp_shard > 1 && config.tied)
    fail(where,
         "a tied table is on the first and on the last stage, and FSDP cuts it at other places on "
         "each. Nearest: an untied model, or one stage, or dp_replicate {} in place of dp_shard",
         shape.dp_shard * shape.dp_replicate);
  const int64_t ranks = int64_t{1} * shape.dp_shard * shape.dp_replicate;
  const int64_t least = shape.dp_shard > 1 ? options.microbatches : 1;
  if (batch / ranks < least)
    fail(where,
         "a batch of {} sequences does not give each of {} data-parallel ranks {}; the nearest "
         "batch "
         "is {}",
         batch, ranks, least == 1 ? "one" : fmt::format("its {} microbatches", least),
         ranks * least);
}

}  // namespace yotta
