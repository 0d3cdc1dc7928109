// N-dimensional parallelism, as a trainer, an optimizer and checkpoints see it: what a rank of a
// mesh has of a transformer (parallel/parallelize.hpp), as a RankModel.
//
// Contract: all ranks of the mesh make it and train with it; expect_layout() (layout_rules.hpp)
// says beforehand what cannot work. Letters: B sequences of a batch, T tokens of a sequence.
#pragma once

#include <memory>
#include <vector>

#include "yotta/model/layout_rules.hpp"
#include "yotta/model/rank_model.hpp"

namespace yotta {

class ParallelTransformer;

class NdParallel : public RankModel {
 public:
  // `weights`: whole tensors of the serial model to start from; empty: its initial values.
  NdParallel(const TransformerConfig& config, Mesh& mesh, const NdOptions& options = {},
             const std::vector<NamedTensor>& weights = {}, Where where = Where::current());
  ~NdParallel() override;

  TrainHooks hooks() override;

  // The sequences that this rank trains on, of the batch's B: all ranks of tp, cp and pp the same.
  BatchShard share(int64_t batch);
  std::vector<Microbatch> microbatches(const Tensor& inputs, const Tensor& targets,
                                       int64_t first_sequence,
                                       const std::vector<int32_t>& documents = {}) override;

  std::vector<NamedTensor> gather(const std::vector<Tensor>& values, DType dtype) override;

 private:
  // The pipeline in place of the trainer's loop.
  double run(const BatchPosition& position, std::span<const Microbatch> batches, int64_t tokens);

  Mesh& mesh_;
  NdOptions options_;
  std::unique_ptr<ParallelTransformer> model_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/nd_parallel.ipp"
#endif
