// parallelize: every axis of a mesh in one model, each with its technique.
//
//     tp     heads, widths and the vocabulary are cut     tensor_parallel
//            tokens are shared between the layers         sequence_parallel
//            they travel in pieces                        async_tensor_parallel
//     ep     experts are shared out                       mix_experts
//     cp     every sequence is cut                        ring_attention, or ulysses
//
// Each of these replaces parts of the serial transformer and knows nothing of the others, but for
// what it stands on. What is around the layers (checkpoints, units of FSDP, stages of a pipeline,
// buckets of gradients) does not reach into them: model/nd_parallel.hpp.
//
// A model that was made as shapes gets its values when all is cut: then nobody ever holds the whole.
//
//     Transformer model = as_shapes([&] {
//       Transformer whole(config);
//       parallelize(whole, mesh, options);
//       return whole;
//     });
//     materialise(parameters(model.stack()));
//
// Contract: all ranks of the mesh call; the layout keeps the rules of model/layout_rules.hpp.
#pragma once

#include "yotta/comm/mesh.hpp"
#include "yotta/parallel/async_tp_layers.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/expert_parallel.hpp"
#include "yotta/parallel/flat_shard.hpp"
#include "yotta/parallel/nd_options.hpp"
#include "yotta/parallel/ulysses.hpp"

namespace yotta {

// Makes of a serial model, or a slice of one, this rank's part. `routed`: ranks with other tokens of
// a microbatch, for experts' loads; empty: those of ep.
inline void parallelize(Transformer& model, Mesh& mesh, const NdOptions& o,
                        const Communicator& routed = {}) {
  const Communicator &tp = mesh[Axis::tp], &cp = mesh[Axis::cp];
  const int64_t T = o.tokens(model.config()) / cp.size();  // tokens of a sequence here
  BorderPtr border;                                        // none: tp is one rank
  if (tp.size() > 1) {
    tensor_parallel(model, tp);
    border = std::make_shared<Border>(tp);
  }
  if (tp.size() > 1 && o.shares_tokens()) {
    sequence_parallel(model, tp, T, o.keep_gathered);
    border = std::make_shared<SequenceBorder>(tp, T, o.keep_gathered);
    if (o.pieces != Pieces::none) async_tensor_parallel(model, tp, T, o.keep_gathered, o.pieces);
  }
  if (model.config().mixture.experts > 0)
    mix_experts(model, {.ep = mesh[Axis::ep], .routed = routed, .border = border});
  if (cp.size() > 1 && o.context == ContextParallel::ring) ring_attention(model, cp);
  if (cp.size() > 1 && o.context == ContextParallel::ulysses) ulysses(model, cp);
}

// The loss of its logits.
inline LossOf loss_on(Mesh& mesh, const TransformerConfig& config) {
  if (mesh.size(Axis::tp) == 1) return loss_of;
  return vocab_parallel_loss(config.vocabulary, mesh[Axis::tp]);
}

}  // namespace yotta
