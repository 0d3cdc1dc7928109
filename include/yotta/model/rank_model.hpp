// Rank model: what one rank trains of a transformer, as a trainer, an optimizer and checkpoints see
// it, however the ranks share the work.
//
//     NdParallel       on a mesh: every axis with its technique    nd_parallel.hpp
//     ReroutedModel    on what is left of a pipeline's replicas    resilience/rerouted_model.hpp
//
// Contract: all ranks of the run make the same calls. Letters: B sequences of a batch, T tokens of
// a sequence.
#pragma once

#include <vector>

#include "yotta/model/named_tensor.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/whole_tensors.hpp"
#include "yotta/nn/transformer_config.hpp"

namespace yotta {

class RankModel {
 public:
  explicit RankModel(const TransformerConfig& config) : config_(config) {}
  virtual ~RankModel() = default;
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;

  // This rank's layers: for the trainer.
  Layers stack() const { return stack_; }
  // What this rank's optimizer steps.
  std::vector<ParameterPtr> parameters() const;
  // What the trainer has to do around the layers. Refers to this object.
  virtual TrainHooks hooks() = 0;

  // This rank's microbatches, of its share of inputs and targets (B, T). documents (B, T): which
  // one each token belongs to; none: the sequences are not packed.
  virtual std::vector<Microbatch> microbatches(const Tensor& inputs, const Tensor& targets,
                                               int64_t first_sequence,
                                               const std::vector<int32_t>& documents = {}) = 0;

  // For checkpoints: what this rank holds, in the order of parameters().
  const std::vector<Held>& held() const { return held_; }
  // Names and shapes of the serial model.
  std::vector<WholeShape> shapes() const;
  // Whole tensors on rank 0 from one tensor for each of held(): weights, or an optimizer's state.
  virtual std::vector<NamedTensor> gather(const std::vector<Tensor>& values, DType dtype) = 0;
  std::vector<NamedTensor> gather_weights();

 protected:
  TransformerConfig config_;
  Layers stack_;
  std::vector<Held> held_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/rank_model.ipp"
#endif
