// The bodies of plan/step_stages.hpp.
#pragma once

#include "yotta/plan/step_stages.hpp"

#include <algorithm>

#include "yotta/model/pipelined.hpp"
#include "yotta/plan/block_walk.hpp"
#include "yotta/plan/ends_walk.hpp"

namespace yotta {

YOTTA_INLINE std::string why_no_estimate(const DescribedStep& step) {
  const NdOptions& o = step.options;
  const MixtureConfig& mixture = step.config.mixture;
  const int64_t own = chunk_count(step.batch, step.shape.data_ranks(), 0);
  if (own > o.microbatches && own % o.microbatches != 0) return "microbatches of unequal size";
  if (mixture.experts > 0 && o.pieces != Pieces::none) return "Async-TP beside a mixture";
  if (mixture.experts > 0 && mixture.capacity > 0 && mixture.capacity < 1)
    return "a capacity below 1, which drops tokens";
  if (o.schedule == PipelineKind::dual_pipe || o.schedule == PipelineKind::dual_pipe_v)
    return "pairs of F and B that run together";
  if (o.schedule == PipelineKind::automatic) return "schedules that are searched for";
  if (o.zero.stage == 2) return "ZeRO-2";
  if (o.naive_gradients) return "one all_reduce for each gradient";
  if (step.config.attention != AttentionKind::blockwise)
    return std::string(name(step.config.attention)) + " attention";
  if (step.config.dropout > 0) return "dropout";
  if (o.checkpoint.what == Recompute::pointwise) return "pointwise recomputation";
  if (o.checkpoint.what == Recompute::revolve || o.checkpoint.every != 1)
    return "recomputation by slices";
  return "";
}

YOTTA_INLINE StepStages::StepStages(const Cluster& cluster, const DescribedStep& step, Where where)
    : step_(step),
      chip_(cluster.chip),
      z_(layer_sizes(step)),
      groups_(plan_groups(cluster, step.shape)),
      walk_(chip_, step_.efficiency),
      plan_(step.options.pipeline()),
      microbatches_(std::min(step.options.microbatches,
                             chunk_count(step.batch, step.shape.data_ranks(), 0))) {
  if (const std::string why = why_no_estimate(step); !why.empty())
    fail(where, "there is no formula for {}: run_described can run it", why);
  make_layers();
  make_stages();
}

// ZeRO adds each parameter's gradient to its bucket.
YOTTA_INLINE LayerFigures StepStages::collected(LayerFigures layer) const {
  if (!has_zero()) return layer;
  for (const WeightReady& each : layer.weights)
    layer.weight.computed += walk_.seconds_of(add_cost(z_.sum_dtype, each.numbers));
  return layer;
}
YOTTA_INLINE void StepStages::make_layers() {
  const bool tied = step_.config.tied && stages() == 1;
  block_ = collected(block_figures(z_, groups_, walk_));
  recomputed_ = checkpointed_figures(block_);
  embedding_ = collected(embedding_figures(step_.config, z_, groups_, walk_, tied));
  head_ = collected(head_figures(z_, groups_, walk_, tied));
  for (const LayerFigures* layer : {&embedding_, &block_, &recomputed_, &head_})
    units_.push_back(plan_unit(*layer, groups_.shards, z_, walk_));
  if (has_tied_ends())
    for (PlanUnit* const end : {&units_.front(), &units_.back()})
      *end = plan_end(*end->layer, groups_.shards, z_, walk_);
  if (has_root()) {
    units_.front() = plan_root(embedding_, head_, groups_.shards, z_, walk_);
    units_.back() = {&head_};
  }
  axes_ = data_axes();
}
YOTTA_INLINE std::vector<LayerRun> StepStages::runs_of(int stage) const {
  const StageLayers entries =
      stage_entries(step_.config, stages(), stage, step_.options.ends_count);
  const int64_t ends = (stage == 0 ? 1 : 0) + (stage + 1 == stages() ? 1 : 0);
  const int64_t count = entries.last - entries.first - ends, most = step_.options.checkpoint_blocks;
  const int64_t again = step_.options.checkpoint.what != Recompute::all ? 0
                        : most < 0                                      ? count
                                                                        : std::min(count, most);
  std::vector<LayerRun> runs;
  if (stage == 0) runs.push_back({&embedding_, 1});
  if (again > 0) runs.push_back({&recomputed_, again});
  if (count > again) runs.push_back({&block_, count - again});
  if (stage + 1 == stages()) runs.push_back({&head_, 1});
  return runs;
}
YOTTA_INLINE void StepStages::make_stages() {
  std::vector<double> made(static_cast<size_t>(ranks()), 0);  // by rank: bytes of gradients
  std::vector<StageFigures> from_last;
  for (int stage = stages(); stage-- > 0;) {
    StageExtras beside = extras();
    const bool folds = plan_.placement() == Placement::vee;
    double& before =
        made[static_cast<size_t>(folds ? std::min(stage, stages() - 1 - stage) : stage % ranks())];
    beside.before = before;
    from_last.push_back(stage_figures(runs_of(stage), beside));
    before += z_.wide * static_cast<double>(from_last.back().parameters);
  }
  stages_.assign(std::make_move_iterator(from_last.rbegin()),
                 std::make_move_iterator(from_last.rend()));
}
YOTTA_INLINE StageExtras StepStages::extras() const {
  StageExtras extras;
  if (is_sharded()) {
    extras.gathered = z_.width;
    extras.unreduced = z_.wide * (1 + 1.0 / groups_.shards.p);
  }
  extras.gradient = z_.wide;
  if (has_root()) extras.root = embedding_.parameters() + head_.parameters();
  if (has_zero()) extras.passing = z_.wide;
  if (makes_gradients()) extras.grows = z_.wide / groups_.shards.p;
  if (has_ddp() && !is_sharded()) {
    extras.scratch_after = static_cast<double>(step_.options.ddp.bucket_bytes);
    extras.scratch = ring_scratch(groups_.data, extras.scratch_after);
  }
  return extras;
}

YOTTA_INLINE std::vector<WeightReady> StepStages::parameters_of(int rank, int chunk) const {
  std::vector<WeightReady> all;
  const auto units = units_of(rank, chunk);
  for (size_t i = units.size(); i-- > 0;)
    all.insert(all.end(), units[i]->shards.rbegin(), units[i]->shards.rend());
  return all;
}
YOTTA_INLINE std::vector<WeightReady> StepStages::parameters_of(int rank) const {
  std::vector<WeightReady> all;
  for (int chunk = chunks(); chunk-- > 0;) {
    const std::vector<WeightReady> own = parameters_of(rank, chunk);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

YOTTA_INLINE std::vector<PlanBucket> StepStages::zero_buckets(int rank) const {
  std::vector<PlanBucket> buckets;
  std::vector<WeightReady> part;
  const auto cut = [&] {
    const auto sets = summed_sets(part, sums_experts_apart());
    for (size_t i = 0; i < sets.size(); ++i)
      for (PlanBucket& each : plan_buckets(sets[i], step_.options.zero.bucket_bytes, z_.wide)) {
        each.experts = i > 0;
        buckets.push_back(std::move(each));
      }
    part.clear();
  };
  for (int chunk = 0; chunk < chunks(); ++chunk, cut())
    for (const WeightReady& each : parameters_of(rank, chunk)) {
      const bool is_apart = has_tied_ends() && each.table;
      if (is_apart) cut();
      part.push_back(each);
      if (is_apart) cut();
    }
  return buckets;
}

YOTTA_INLINE const PlanUnit& StepStages::unit_of(const LayerFigures* layer) const {
  return *std::find_if(units_.begin(), units_.end(),
                       [&](const PlanUnit& unit) { return unit.layer == layer; });
}
YOTTA_INLINE std::vector<const PlanUnit*> StepStages::units_of(int rank, int chunk) const {
  std::vector<const PlanUnit*> units;
  for (const LayerRun& run : stage_of(rank, chunk).runs)
    units.insert(units.end(), static_cast<size_t>(run.count), &unit_of(run.layer));
  return units;
}
YOTTA_INLINE DataAxes StepStages::data_axes() const {
  DataAxes axes;
  axes.shards = groups_.shards, axes.data = groups_.data, axes.experts = groups_.experts;
  axes.experts_apart = sums_experts_apart();
  axes.bucket_bytes = step_.options.ddp.bucket_bytes, axes.wide = z_.wide;
  if (has_zero()) axes.data.p = 1;
  const PlanGroup* kinds[] = {&groups_.tp, &groups_.cp, &groups_.ep};
  for (size_t i = 0; i < std::size(kinds); ++i) {
    axes.beside_shards[i] = kinds[i]->p > 1 && kinds[i]->port == groups_.shards.port;
    axes.beside_data[i] = kinds[i]->p > 1 && kinds[i]->port == groups_.data.port;
  }
  axes.is_alone = stages() == 1;
  if (groups_.pp.p > 1 && groups_.pp.port == groups_.shards.port)
    axes.message = between() * groups_.pp.link.beta;
  return axes;
}

YOTTA_INLINE int64_t StepStages::own_token_numbers(const LayerFigures* layer) const {
  const int64_t norm = (z_.is_gpt2 ? 2 : 1) * z_.C;
  if (layer == &embedding_) return z_.is_gpt2 ? step_.config.context * z_.C : 0;
  return layer == &head_ ? norm : 2 * norm;
}

}  // namespace yotta
