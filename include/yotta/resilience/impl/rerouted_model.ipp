// The bodies of resilience/rerouted_model.hpp.
#pragma once

#include "yotta/resilience/rerouted_model.hpp"

#include <algorithm>

#include "yotta/model/pipelined.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/resilience/regroup.hpp"

namespace yotta {

YOTTA_INLINE std::vector<StageOfReplica> dead_stages(const PipelineReplicas& job,
                                                     std::span<const int> places) {
  const Places all{job.replicas, job.p};
  std::vector<StageOfReplica> dead;
  for (int place = 0; place < all.count(); ++place)
    if (std::find(places.begin(), places.end(), place) == places.end())
      dead.push_back({all.replica(place), all.part(place)});
  return dead;
}

YOTTA_INLINE ReroutedModel::ReroutedModel(const TransformerConfig& config,
                                          const PipelineReplicas& job,
                                          std::span<const StageOfReplica> dead,
                                          const Communicator& world, const NdOptions& options,
                                          const std::vector<NamedTensor>& weights, Where where)
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

YOTTA_INLINE ReroutedModel::~ReroutedModel() = default;

YOTTA_INLINE void ReroutedModel::make_stage(const std::vector<NamedTensor>& weights) {
  const StageLayers entries = stage_entries(config_, job_.p, stage_);
  model_ = std::make_unique<Transformer>(config_, entries.first, entries.last);
  stack_ = model_->stack();
  if (!weights.empty()) take_all(weights, stack_);
  if (options_.checkpoint.what != Recompute::none) {
    checkpointed_ =
        checkpointed_stage(stack_, options_.checkpoint, job_.p, stage_, options_.checkpoint_blocks);
    stack_ = checkpointed_;
  }
  for (const ParameterPtr& each : yotta::parameters(stack_)) held_.push_back({each, 0});
}

// A norm counts each weight once, so each knows how many ranks have it.
YOTTA_INLINE void ReroutedModel::share_gradients() {
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

YOTTA_INLINE TrainHooks ReroutedModel::hooks() {
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

YOTTA_INLINE void ReroutedModel::sync_if(bool last) {
  if (!ddp_) return;
  if (last) quiet_.reset();
  if (!last && !quiet_) quiet_.emplace(*ddp_);
}

YOTTA_INLINE void ReroutedModel::finish() {
  if (ddp_) ddp_->finish();
  if (options_.naive_gradients) reduce_gradients(own_, peers_, ReduceOp::sum);
  if (tied_) tied_->reduce();
}

YOTTA_INLINE double ReroutedModel::run(const BatchPosition& position,
                                       std::span<const Microbatch> batches, int64_t tokens) {
  PipelinedStep step;
  step.width = config_.width, step.dtype = config_.dtype;
  return run_scheduled(*pipeline_, made_.schedule, step, position, batches, tokens).loss;
}

YOTTA_INLINE std::vector<Microbatch> ReroutedModel::microbatches(
    const Tensor& inputs, const Tensor& targets, int64_t first_sequence,
    const std::vector<int32_t>& documents) {
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
                             job_.m, first_sequence + its.begin)) {
      if (!documents.empty())
        each = packed(std::move(each),
                      packing_of(documents_of(each, documents, first_sequence), inputs.dim(1)));
      all.push_back(std::move(each));
    }
  }
  return all;
}

// Of the ranks that hold a tensor the lowest gives it.
YOTTA_INLINE std::vector<NamedTensor> ReroutedModel::gather(const std::vector<Tensor>& values,
                                                            DType dtype) {
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
