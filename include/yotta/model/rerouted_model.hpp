// Rerouted model: a transformer on the replicas of a pipeline, some of whose ranks may be dead. The
// peers of a dead rank, which hold the same stage, compute its microbatches
// (parallel/rerouted_pipeline.hpp).
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

#include "yotta/model/nd_options.hpp"
#include "yotta/model/rank_model.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/rerouted_pipeline.hpp"
#include "yotta/parallel/tied_parameters.hpp"

namespace yotta {

class Transformer;

// Of these places of a job; the others are dead.
YOTTA_API std::vector<StageOfReplica> dead_stages(const PipelineReplicas& job,
                                                  std::span<const int> places);

class ReroutedModel : public RankModel {
 public:
  // Of the options: microbatches, checkpoint, ddp, naive_gradients. `weights`: whole tensors of the
  // serial model to start from; empty: its initial values.
  YOTTA_API ReroutedModel(const TransformerConfig& config, const PipelineReplicas& job,
                          std::span<const StageOfReplica> dead, const Communicator& world,
                          const NdOptions& options = {},
                          const std::vector<NamedTensor>& weights = {},
                          Where where = Where::current());
  YOTTA_API ~ReroutedModel() override;

  YOTTA_API TrainHooks hooks() override;

  // Of the whole batch: replica by replica, each with its share. This rank runs its stage of some.
  YOTTA_API std::vector<Microbatch> microbatches(const Tensor& inputs, const Tensor& targets,
                                                 int64_t first_sequence) override;
  YOTTA_API std::vector<NamedTensor> gather(const std::vector<Tensor>& values,
                                            DType dtype) override;

  const PipelineSchedule& schedule() const { return made_.schedule; }

 private:
  YOTTA_API void make_stage(const std::vector<NamedTensor>& weights);
  YOTTA_API void share_gradients();
  // DDP reduces in the last backward of a step.
  YOTTA_API void sync_if(bool last);
  YOTTA_API void finish();
  YOTTA_API double run(const BatchPosition& position, std::span<const Microbatch> batches,
                       int64_t tokens);

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

#if YOTTA_BODIES_OF(model)
#include <algorithm>

#include "yotta/model/pipelined.hpp"
#include "yotta/model/transformer.hpp"

namespace yotta {

std::vector<StageOfReplica> dead_stages(const PipelineReplicas& job, std::span<const int> places) {
  std::vector<StageOfReplica> dead;
  for (int place = 0; place < job.replicas * job.p; ++place)
    if (std::find(places.begin(), places.end(), place) == places.end())
      dead.push_back({place / job.p, place % job.p});
  return dead;
}

ReroutedModel::ReroutedModel(const TransformerConfig& config, const PipelineReplicas& job,
                             std::span<const StageOfReplica> dead, const Communicator& world,
                             const NdOptions& options, const std::vector<NamedTensor>& weights,
                             Where where)
    : RankModel(config),
      job_(job),
      options_(options),
      world_(world),
      made_(reroute(job, dead, 3, planned_costs(config.width, options.tokens(config)), where)) {
  if (std::ssize(made_.ranks) != world.size())
    fail(where, "{} replicas of {} stages without {} ranks need a world of {}, not {}",
         job.replicas, job.p, std::ssize(dead), made_.ranks.size(), world.size());
  const StageOfReplica self = made_.ranks[static_cast<size_t>(world.rank())];
  stage_ = self.stage;
  peers_ = world.split(self.stage, self.replica).named("dp");
  make_stage(weights);
  share_gradients();
  pipeline_.emplace(world_, std::vector<Layers>{stack_}, [this](bool last) { sync_if(last); });
}

ReroutedModel::~ReroutedModel() = default;

void ReroutedModel::make_stage(const std::vector<NamedTensor>& weights) {
  const StageLayers entries = stage_entries(config_, job_.p, stage_);
  model_ = std::make_unique<Transformer>(config_, entries.first, entries.last);
  stack_ = model_->stack();
  if (!weights.empty()) take_all(weights, stack_);
  if (options_.checkpoint.what != Recompute::none) {
    checkpointed_ = checkpointed_stage(stack_, options_, job_.p, stage_);
    stack_ = checkpointed_;
  }
  for (const ParameterPtr& each : yotta::parameters(stack_)) held_.push_back({each, 0});
}

// A norm counts each weight once, so each knows how many ranks have it.
void ReroutedModel::share_gradients() {
  std::vector<ParameterPtr> table;
  const bool is_tied = config_.tied && job_.p > 1;
  for (const Held& each : held_)
    (is_tied && each.parameter->name == tied_table ? table : own_).push_back(each.parameter);
  if (is_tied) tied_.emplace(table, world_);
  for (const ParameterPtr& each : own_) each->copies *= peers_.size();
  if (options_.naive_gradients)
    broadcast_parameters(own_, peers_);
  else if (peers_.size() > 1)
    ddp_.emplace(own_, peers_, options_.ddp);
}

TrainHooks ReroutedModel::hooks() {
  TrainHooks hooks;
  hooks.world = world_;
  hooks.after_backward = [this] { finish(); };
  hooks.sum_over_ranks = [this](double loss) { return sum_over(world_, loss, "loss"); };
  hooks.sum_of_squares = [this](double own) { return sum_over(world_, own, "norm"); };
  hooks.run_microbatches = [this](const BatchPosition& position,
                                  std::span<const Microbatch> batches,
                                  int64_t tokens) { return run(position, batches, tokens); };
  return hooks;
}

void ReroutedModel::sync_if(bool last) {
  if (!ddp_) return;
  if (last) quiet_.reset();
  if (!last && !quiet_) quiet_.emplace(*ddp_);
}

void ReroutedModel::finish() {
  if (ddp_) ddp_->finish();
  if (options_.naive_gradients) reduce_gradients(own_, peers_, ReduceOp::sum);
  if (tied_) tied_->reduce();
}

double ReroutedModel::run(const BatchPosition& position, std::span<const Microbatch> batches,
                          int64_t tokens) {
  PipelinedStep step;
  step.width = config_.width, step.dtype = config_.dtype;
  return run_scheduled(*pipeline_, made_.schedule, step, position, batches, tokens).loss;
}

std::vector<Microbatch> ReroutedModel::microbatches(const Tensor& inputs, const Tensor& targets,
                                                    int64_t first_sequence) {
  std::vector<Microbatch> all;
  for (int replica = 0; replica < job_.replicas; ++replica) {
    const BatchShard its = batch_shard(inputs.dim(0), job_.replicas, replica);
    if (its.end - its.begin < job_.m)
      fail(Where::current(),
           "replica {} has {} of {} sequences for {} microbatches: to be rerouted, all replicas "
           "need as many. Take a larger batch, or fewer microbatches",
           replica, its.end - its.begin, inputs.dim(0), job_.m);
    for (Microbatch& each :
         yotta::microbatches(inputs.rows(its.begin, its.end), targets.rows(its.begin, its.end),
                             job_.m, first_sequence + its.begin))
      all.push_back(std::move(each));
  }
  return all;
}

// Of the ranks that hold a tensor the lowest gives it.
std::vector<NamedTensor> ReroutedModel::gather(const std::vector<Tensor>& values, DType dtype) {
  const MemoryScope memory(MemoryKind::buffers);
  std::vector<NamedTensor> all;
  for (const WholeShape& each : shapes()) {
    const auto found = std::find_if(held_.begin(), held_.end(), [&](const Held& mine) {
      return mine.parameter->name == each.name;
    });
    std::vector<int> giver = {found != held_.end() ? world_.rank() : world_.size()};
    world_.all_reduce(giver, ReduceOp::min, {.label = "whole.stage"});
    Tensor whole = Tensor::zeros(each.shape, dtype);
    if (giver[0] == world_.rank())
      whole.copy_from(values[static_cast<size_t>(found - held_.begin())]);
    world_.reduce(whole, 0, ReduceOp::sum, {.label = "whole"});
    if (world_.rank() == 0) all.push_back({each.name, whole});
  }
  return all;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
