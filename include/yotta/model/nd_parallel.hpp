// N-dimensional parallelism: one transformer on one mesh, every axis with its technique.
//
//     ddp or zero   over cp x ep x dp_replicate, beside fsdp     hooks on parameters, outermost
//      └ pipeline   over pp          ddp over ep x dp_replicate  a stage is a slice of the stack
//         └ fsdp    over cp x dp_shard                           a unit is a slice of a stage
//            └ activation checkpointing                          forward again in backward
//               └ layers   over tp (heads, widths, tokens), cp (the sequence), ep (experts)
//
// Who must sum what: gradient_groups.hpp. Each technique is the same code as when it is alone. A
// mesh of one rank is the serial trainer.
// Contract: all ranks of the mesh make it and train with it; expect_layout() (layout_rules.hpp)
// says beforehand what cannot work. Letters: B sequences of a batch, T tokens of a sequence.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "yotta/model/layout_rules.hpp"
#include "yotta/model/nd_groups.hpp"
#include "yotta/model/rank_model.hpp"
#include "yotta/nn/load_balance.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/tied_parameters.hpp"

namespace yotta {

class Transformer;

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
                                       int64_t first_sequence) override;

  std::vector<NamedTensor> gather(const std::vector<Tensor>& values, DType dtype) override;

 private:
  // A chunk of this rank: a stage of the model, with what is wrapped around its layers.
  struct Stage {
    std::unique_ptr<Transformer> model;
    std::vector<LayerPtr> checkpointed;
    std::unique_ptr<Fsdp> fsdp;
    std::vector<std::unique_ptr<Zero>> zero;  // of each set of parameters
    Layers layers;
  };

  void add_stage(int chunk, const std::vector<NamedTensor>& weights);
  void find_held();
  void finish_building();
  bool shares_tokens() const { return options_.shares_tokens() && mesh_.size(Axis::tp) > 1; }

  // Before each microbatch's backward pass. DDP reduces gradients in the last one of a step; beside
  // FSDP (parallel/hsdp.hpp), a sum still under way is finished first. ZeRO-2 reduces in each.
  void sync_if(bool last);
  void finish();

  // The pipeline in place of the trainer's loop.
  double run(const BatchPosition& position, std::span<const Microbatch> batches, int64_t tokens);

  Mesh& mesh_;
  NdOptions options_;
  bool is_sharded_, has_zero_;  // with FSDP; with ZeRO-1 or 2
  NdGroups groups_;
  std::deque<Stage> stages_;
  std::vector<LayerPtr> slices_;  // stages as layers, if there are several
  std::optional<TiedParameters> tied_;
  std::optional<Pipeline> pipeline_;
  std::deque<Ddp> ddp_;  // of each set of parameters that several ranks sum
  std::deque<Ddp::NoSync> quiet_;
  RouterBiases biases_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/nd_parallel.ipp"
#endif
