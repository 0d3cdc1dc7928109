// Nd options: what the ranks of each axis do, beside how many they are (comm/mesh.hpp).
//
//     tp           sequence_parallel, keep_gathered, pieces
//     cp           context
//     pp           schedule, chunks, ends_count, hold, microbatches
//     fsdp         fsdp
//     dp, ep       ddp, naive_gradients or zero
//     every axis   checkpoint, checkpoint_blocks, loss_tokens
//
// Defaults are the plain form of each; model/layout_rules.hpp says what does not go together.
#pragma once

#include "yotta/comm/mesh.hpp"
#include "yotta/nn/transformer_config.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/async_tp.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/pipeline_kinds.hpp"
#include "yotta/parallel/zero.hpp"

namespace yotta {

// How attention crosses cp: keys and values go round the ring, or heads are exchanged for tokens.
enum class ContextParallel : uint8_t { ring, ulysses };

struct NdOptions {
  int64_t microbatches = 1;  // of each rank's share of the batch
  // Whether routers' balance loss is of the whole batch, not a mean of the microbatches': then all
  // forward passes come first, and the activations of all microbatches are held, as GPipe's are.
  bool balance_over_batch = false;
  CheckpointOptions checkpoint = {.what = Recompute::none};
  int64_t checkpoint_blocks = -1;  // its first ones, of each stage; -1: all
  int64_t loss_tokens = 0;         // whose logits exist at once (nn/chunked_loss.hpp); 0: all
  PipelineKind schedule = PipelineKind::one_f_one_b;
  int chunks = 1;           // stages per rank, of the interleaved ones
  bool ends_count = false;  // the embedding and the head count as blocks: stage_entries
  int64_t hold = 0;         // microbatches that a rank may hold, of the automatic one
  ContextParallel context = ContextParallel::ring;
  bool sequence_parallel = false, keep_gathered = false;  // over tp
  Pieces pieces = Pieces::none;  // Async-TP; with pieces sequence_parallel is meant too
  FsdpOptions fsdp = {};
  ZeroOptions zero = {.stage = 0};  // 1 or 2: in place of DDP over cp and dp_replicate
  DdpOptions ddp = {};
  bool naive_gradients = false;  // in place of DDP: one all_reduce per parameter, after backward
  int64_t sequence = 0;          // tokens in a sequence; 0: the model's context
  int64_t tokens(const TransformerConfig& c) const { return sequence > 0 ? sequence : c.context; }
  bool shares_tokens() const { return sequence_parallel || pieces != Pieces::none; }
  PipelinePlan pipeline() const { return {schedule, chunks, hold}; }
};

// Can the loss be computed some tokens at a time (nn/chunked_loss.hpp)? FSDP has dropped the output
// matrix by then, and Async-TP multiplies by it itself.
constexpr bool can_chunk_loss(const MeshShape& shape, Pieces pieces) {
  return shape.dp_shard == 1 && (shape.tp == 1 || pieces == Pieces::none);
}

// Throws if a number is one that no run can mean, whether its axis is used or not.
inline void check_options(const NdOptions& o, Where where = Where::current()) {
  const NumberRange all_or_some{.least = -1, .with_most = false};
  check_option(where, "NdOptions::microbatches", o, &NdOptions::microbatches, one_or_more);
  check_option(where, "NdOptions::checkpoint_blocks", o, &NdOptions::checkpoint_blocks,
               all_or_some);
  check_option(where, "NdOptions::loss_tokens", o, &NdOptions::loss_tokens, zero_or_more);
  check_option(where, "NdOptions::chunks", o, &NdOptions::chunks, one_or_more);
  check_option(where, "NdOptions::hold", o, &NdOptions::hold, zero_or_more);
  check_option(where, "NdOptions::sequence", o, &NdOptions::sequence, zero_or_more);
  check_option(where, "CheckpointOptions::every", o.checkpoint, &CheckpointOptions::every,
               zero_or_more);
  check_option(where, "CheckpointOptions::snapshots", o.checkpoint, &CheckpointOptions::snapshots,
               one_or_more);
  check_option(where, "FsdpOptions::layers_per_unit", o.fsdp, &FsdpOptions::layers_per_unit,
               one_or_more);
  check_option(where, "ZeroOptions::bucket_bytes", o.zero, &ZeroOptions::bucket_bytes, one_or_more);
  check_option(where, "DdpOptions::bucket_bytes", o.ddp, &DdpOptions::bucket_bytes, one_or_more);
}

}  // namespace yotta
