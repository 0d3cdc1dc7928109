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
    : RankModel(config), mesh_(mesh), options_(options) {
  expect_layout(config, mesh.shape(), std::numeric_limits<int64_t>::max(), options, where);
  ParallelTransformer::Load load;
  if (!weights.empty()) load = [&](Layers layers) { take_all(weights, layers); };
  model_ = std::make_unique<ParallelTransformer>(config, mesh, options, load, where);
  stack_ = model_->stack();
  for (const ParameterShard& each : model_->held()) held_.push_back({each.parameter, each.first});
}

YOTTA_INLINE NdParallel::~NdParallel() = default;

YOTTA_INLINE TrainHooks NdParallel::hooks() {
  // One rank has nothing to do around a step, so that a GPU can compute all of it without the host.
  const bool is_alone = mesh_.world().size() == 1 && config_.mixture.experts == 0 &&
                        !model_->has_zero() && !model_->pipeline && options_.loss_tokens == 0;
  if (is_alone && parameters()[0]->value.device() == Device::cuda) return {};
  const NdGroups& groups = model_->groups;
  TrainHooks hooks;
  hooks.loss = model_->loss();
  hooks.world = mesh_.world();
  hooks.balance_over_batch = options_.balance_over_batch;
  hooks.before_microbatch = [this](bool last) { model_->sync_if(last); };
  hooks.after_backward = [this] { model_->finish(); };
  hooks.sum_over_ranks = [&](double loss) { return sum_over(groups.losses, loss, "loss"); };
  hooks.sum_of_squares = [this, &groups](double of_layers) {  // with ZeRO layers have no gradients
    const double own = model_->has_zero() ? sum_of_squares(parameters()) : of_layers;
    return sum_over(groups.weights, own, "norm");
  };
  hooks.before_step = [this] { model_->before_step(); };
  hooks.after_step = [this] { model_->after_step(); };
  if (model_->pipeline)
    hooks.run_microbatches = [this](const BatchPosition& position,
                                    std::span<const Microbatch> batches,
                                    int64_t tokens) { return run(position, batches, tokens); };
  return hooks;
}

YOTTA_INLINE BatchShard NdParallel::share(int64_t batch) {
  return batch_shard(batch, mesh_.dp().size(), mesh_.dp().rank());
}

YOTTA_INLINE std::vector<Microbatch> NdParallel::microbatches(
    const Tensor& inputs, const Tensor& targets, int64_t first_sequence,
    const std::vector<int32_t>& documents) {
  Communicator& cp = mesh_[Axis::cp];
  const int64_t T = inputs.dim(1);
  const bool dealt = cp.size() > 1 && config_.attention == AttentionKind::flex &&
                     options_.context == ContextParallel::ring;
  if (!dealt && documents.empty())
    return yotta::microbatches(context_shard(inputs, cp), context_shard(targets, cp),
                               options_.microbatches, first_sequence, context_positions(T, cp));
  std::vector<Microbatch> parts =
      yotta::microbatches(inputs, targets, options_.microbatches, first_sequence);
  for (Microbatch& each : parts) {
    const std::vector<int32_t> own = documents_of(each, documents, first_sequence);
    Packing packing = dealt ? dealt_packing(config_.mask, own, T, cp) : context_packing(own, T, cp);
    each.inputs = columns_at(each.inputs, packing.places);
    each.targets = columns_at(each.targets, packing.places);
    if (!dealt) each.positions = context_positions(T, cp);
    each = packed(std::move(each), std::move(packing));
  }
  return parts;
}

YOTTA_INLINE std::vector<NamedTensor> NdParallel::gather(const std::vector<Tensor>& values,
                                                         DType dtype) {
  return gather_whole(shapes(), held_, values, dtype, model_->groups.runs, mesh_);
}

YOTTA_INLINE double NdParallel::run(const BatchPosition& position,
                                    std::span<const Microbatch> batches, int64_t tokens) {
  // what flows between stages: as the weights of their layers
  const DType dtype =
      model_->is_sharded() ? options_.fsdp.gathered.value_or(config_.dtype) : config_.dtype;
  const PipelinedStep made{options_.pipeline(), config_.width, dtype, model_->loss(),
                           model_->shares_tokens() ? mesh_[Axis::tp] : Communicator{}};
  return run_pipelined(*model_->pipeline, mesh_.size(Axis::pp), made, position, batches, tokens)
      .loss;
}

}  // namespace yotta
