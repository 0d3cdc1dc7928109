// The bodies of model/nd_parallel.hpp.
#pragma once

#include "yotta/model/nd_parallel.hpp"

#include <limits>

#include "yotta/model/pipelined.hpp"
#include "yotta/parallel/parallelize.hpp"

namespace yotta {

YOTTA_INLINE NdParallel::NdParallel(const TransformerConfig& config, Mesh& mesh,
                                    const NdOptions& options,
                                    const std::vector<NamedTensor>& weights, Where where)
    : RankModel(config),
      mesh_(mesh),
      options_(options),
      is_sharded_(mesh.size(Axis::dp_shard) > 1),
      has_zero_(options.zero.stage > 0),
      biases_(config.mixture.bias_rate) {
  expect_layout(config, mesh.shape(), std::numeric_limits<int64_t>::max(), options, where);
  groups_ = NdGroups(mesh, {mesh.shape(), options.shares_tokens(), {}, is_sharded_, has_zero_},
                     config.mixture.experts > 0, where);
  const int chunks = options.pipeline().chunks_of_rank();
  for (int chunk = 0; chunk < chunks; ++chunk) add_stage(chunk, weights);
  find_held();
  finish_building();
}

YOTTA_INLINE NdParallel::~NdParallel() = default;

YOTTA_INLINE TrainHooks NdParallel::hooks() {
  TrainHooks hooks;
  hooks.loss = loss_on(mesh_, config_);
  hooks.world = mesh_.world();
  hooks.before_microbatch = [this](bool last) { sync_if(last); };
  hooks.after_backward = [this] { finish(); };
  hooks.sum_over_ranks = [this](double loss) { return sum_over(groups_.losses, loss, "loss"); };
  hooks.sum_of_squares = [this](double of_layers) {  // with ZeRO the layers have no gradients
    return sum_over(groups_.weights, has_zero_ ? sum_of_squares(parameters()) : of_layers, "norm");
  };
  hooks.before_step = [this] { biases_.step(); };
  hooks.after_step = [this] {
    for (Stage& stage : stages_)
      for (const auto& zero : stage.zero) zero->gather();
  };
  if (pipeline_)
    hooks.run_microbatches = [this](const BatchPosition& position,
                                    std::span<const Microbatch> batches,
                                    int64_t tokens) { return run(position, batches, tokens); };
  return hooks;
}

YOTTA_INLINE BatchShard NdParallel::share(int64_t batch) {
  return batch_shard(batch, mesh_.dp().size(), mesh_.dp().rank());
}

YOTTA_INLINE std::vector<Microbatch> NdParallel::microbatches(const Tensor& inputs,
                                                              const Tensor& targets,
                                                              int64_t first_sequence) {
  Communicator& cp = mesh_[Axis::cp];
  return yotta::microbatches(context_shard(inputs, cp), context_shard(targets, cp),
                             options_.microbatches, first_sequence,
                             context_positions(inputs.dim(1), cp));
}

YOTTA_INLINE std::vector<NamedTensor> NdParallel::gather(const std::vector<Tensor>& values,
                                                         DType dtype) {
  return gather_whole(shapes(), held_, values, dtype, groups_.runs, mesh_);
}

YOTTA_INLINE void NdParallel::add_stage(int chunk, const std::vector<NamedTensor>& weights) {
  const PipelinePlan plan = options_.pipeline();
  const int pp = mesh_.size(Axis::pp), stages = plan.stages(pp);
  const int stage = stage_on(plan.placement(), mesh_.coordinate(Axis::pp), chunk, pp);
  const StageLayers entries = stage_entries(config_, stages, stage, options_.ends_count);
  if (config_.tied && stages > 1) options_.zero.apart = {tied_table};
  Stage made;
  made.model = as_shapes([&] {
    auto model = std::make_unique<Transformer>(config_, entries.first, entries.last);
    parallelize(*model, mesh_, options_, groups_.routed);
    return model;
  });
  made.layers = made.model->stack();
  // With FSDP nobody ever holds the whole stage, unless weights are to be loaded into it.
  if (!is_sharded_ || !weights.empty()) materialise(yotta::parameters(made.layers));
  groups_.count_copies(yotta::parameters(made.layers));
  if (!weights.empty()) take_all(weights, made.layers);
  if (options_.checkpoint.what != Recompute::none) {
    made.checkpointed = checkpointed_stage(made.layers, options_, stages, stage);
    made.layers = made.checkpointed;
  }
  if (is_sharded_) {
    const FsdpPlan units = plan_fsdp(made.layers, options_.fsdp.layers_per_unit);
    made.fsdp = std::make_unique<Fsdp>(with_own_units(units, options_.zero.apart), groups_.shards,
                                       options_.fsdp);
    made.layers = made.fsdp->stack();
  }
  const auto sets = groups_.sets(yotta::parameters(made.layers));
  for (size_t i = 0; i < sets.size() && has_zero_; ++i)
    made.zero.push_back(std::make_unique<Zero>(sets[i], groups_.data[i], options_.zero));
  stages_.push_back(std::move(made));
}

YOTTA_INLINE void NdParallel::find_held() {
  for (Stage& stage : stages_) {
    if (stages_.size() > 1) slices_.push_back(std::make_unique<Sequential>(stage.layers));
    stack_ = stage.layers;
  }
  if (stages_.size() > 1) stack_ = slices_;
  const auto hold = [this](const std::vector<ParameterShard>& shards) {
    for (const ParameterShard& shard : shards) held_.push_back({shard.parameter, shard.first});
  };
  for (const Stage& stage : stages_) {
    if (stage.fsdp)
      for (const FsdpUnit& unit : stage.fsdp->units()) hold(unit.shards());
    for (const auto& zero : stage.zero)
      for (const ZeroBucket& bucket : zero->buckets()) hold(bucket.shards);
    if (!stage.fsdp && !has_zero_)
      for (const ParameterPtr& each : yotta::parameters(stage.layers)) held_.push_back({each, 0});
  }
}

YOTTA_INLINE void NdParallel::finish_building() {
  const std::vector<ParameterPtr> all = parameters();
  if (mesh_.size(Axis::pp) > 1 || stages_.size() > 1) {
    tied_.emplace(all, mesh_[Axis::pp]);
    std::vector<Layers> chunks;
    for (const Stage& stage : stages_) chunks.push_back(stage.layers);
    pipeline_.emplace(mesh_[Axis::pp], chunks, [this](bool last) { sync_if(last); });
  }
  const auto sets = groups_.sets(all);
  for (size_t i = 0; i < sets.size() && !has_zero_; ++i)
    if (options_.naive_gradients)
      broadcast_parameters(sets[i], groups_.data[i]);
    else if (groups_.data[i].size() > 1)
      ddp_.emplace_back(sets[i], groups_.data[i], options_.ddp);
}

YOTTA_INLINE void NdParallel::sync_if(bool last) {
  const bool turns = !ddp_.empty() && last != quiet_.empty();  // else as for the one before
  for (Stage& stage : stages_) {
    for (const auto& zero : stage.zero) zero->flush();
    if (stage.fsdp && turns) stage.fsdp->finish();
  }
  if (turns && last) quiet_.clear();
  if (turns && !last)
    for (Ddp& each : ddp_) quiet_.emplace_back(each);
}

YOTTA_INLINE void NdParallel::finish() {
  for (Stage& stage : stages_) {
    if (stage.fsdp) stage.fsdp->finish();
    for (const auto& zero : stage.zero) zero->finish();
  }
  for (Ddp& each : ddp_) each.finish();
  const auto sets = groups_.sets(parameters());
  for (size_t i = 0; i < sets.size() && options_.naive_gradients; ++i)
    reduce_gradients(sets[i], groups_.data[i], ReduceOp::sum);
  if (tied_) tied_->reduce();
  if (shares_tokens()) reduce_own_token_gradients(parameters(), mesh_[Axis::tp]);
  biases_.take(parameters());
}

YOTTA_INLINE double NdParallel::run(const BatchPosition& position,
                                    std::span<const Microbatch> batches, int64_t tokens) {
  // what flows between stages: as the weights of their layers
  const DType dtype = is_sharded_ ? options_.fsdp.gathered.value_or(config_.dtype) : config_.dtype;
  const PipelinedStep made{options_.pipeline(), config_.width, dtype, loss_on(mesh_, config_),
                           shares_tokens() ? mesh_[Axis::tp] : Communicator{}};
  return run_pipelined(*pipeline_, mesh_.size(Axis::pp), made, position, batches, tokens).loss;
}

}  // namespace yotta
