// Rerouted model: a transformer on the replicas of a pipeline, some of whose ranks may be dead. The
// peers of a dead rank, which hold the same stage, compute its microbatches
// (resilience/rerouted_pipeline.hpp).
//
//     2 replicas of 2 stages, place 1 is dead      world    place    stage    peers
//                                                  rank 0   0        0        ranks 0, 1
//     replica 0     0 ──── x                       rank 1   2        0        ranks 0, 1
//                     ╲                            rank 2   3        1        rank 2
//     replica 1     2 ──── 3                       rank 2 runs stage 1 of all microbatches
//
// Who sums what. A rank adds up the gradients of its microbatches, its own and those that came to
// it, in the order of its schedule. Then the peers add up theirs: one all_reduce for each stage. A
// tied table is on the first stage and on the last: all ranks of both add it up. So the gradient is
// that of the run without failures, but for rounding: sums are made in another order. Dropout draws
// by a sequence's number in the batch, whoever computes it.
//
// Cost: messages as 1F1B; every rank has the tokens of the whole batch, 8 B T bytes. Memory: up to
// three times the microbatches in flight of 1F1B, where that shortens the step (`reroute`).
// Contract: the world has the ranks that live, by place = replica x stages + stage. Each replica
// has the same number of microbatches. Pipelines and data parallelism alone: no tp, cp, ep or fsdp,
// no ZeRO, no mixture of experts, a stage on each rank.
// Reference: Gandhi et al. (2024), "ReCycle", section 3.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "yotta/model/rank_model.hpp"
#include "yotta/parallel/nd_options.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/tied_parameters.hpp"
#include "yotta/resilience/rerouted_pipeline.hpp"

namespace yotta {

class Transformer;

// Of these places of a job; the others are dead.
std::vector<StageOfReplica> dead_stages(const PipelineReplicas& job, std::span<const int> places);

class ReroutedModel : public RankModel {
 public:
  // Of the options: microbatches, checkpoint, ddp, naive_gradients. `weights`: whole tensors of the
  // serial model to start from; empty: its initial values.
  ReroutedModel(const TransformerConfig& config, const PipelineReplicas& job,
                std::span<const StageOfReplica> dead, const Communicator& world,
                const NdOptions& options = {}, const std::vector<NamedTensor>& weights = {},
                Where where = Where::current());
  ~ReroutedModel() override;

  TrainHooks hooks() override;

  // Of the whole batch: replica by replica, each with its share. This rank runs its stage of some.
  std::vector<Microbatch> microbatches(const Tensor& inputs, const Tensor& targets,
                                       int64_t first_sequence,
                                       const std::vector<int32_t>& documents = {}) override;
  std::vector<NamedTensor> gather(const std::vector<Tensor>& values, DType dtype) override;

  const PipelineSchedule& schedule() const { return made_.schedule; }

 private:
  void make_stage(const std::vector<NamedTensor>& weights);
  void share_gradients();
  // DDP reduces in the last backward of a step.
  void sync_if(bool last);
  void finish();
  double run(const BatchPosition& position, std::span<const Microbatch> batches, int64_t tokens);

  PipelineReplicas job_;
  NdOptions options_;
  Communicator world_, peers_;
  ReroutedPipeline made_;
  int stage_ = 0;
  std::unique_ptr<Transformer> model_;
  std::vector<LayerPtr> checkpointed_;
  std::vector<ParameterPtr> own_;  // that no other stage has
  std::optional<TiedParameters> tied_;
  std::optional<Ddp> ddp_;
  std::optional<Ddp::NoSync> quiet_;
  std::optional<Pipeline> pipeline_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/resilience/impl/rerouted_model.ipp"
#endif
