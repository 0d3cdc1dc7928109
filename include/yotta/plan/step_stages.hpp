// Step stages: the stages of a layout's pipeline, with all that their ranks pay in one microbatch.
//
//     config, shape, options     as run_described takes them        model/described_step.hpp
//       └ groups                 who talks over which link          plan_groups.hpp
//       └ layers                 a block, kept or recomputed; the embedding; the head
//          └ stages              runs of them                       stage_walk.hpp
//          └ units               FSDP's, or whole layers            plan_buckets.hpp
//
// From here step_memory.hpp finds bytes and step_estimate.hpp seconds.
// Contract: expect_layout(). Letters: none.
#pragma once

#include <vector>

#include "yotta/parallel/pipeline_kinds.hpp"
#include "yotta/plan/gradient_walk.hpp"
#include "yotta/plan/stage_walk.hpp"

namespace yotta {

// Why a step that could run cannot be estimated; empty if it can.
YOTTA_API std::string why_no_estimate(const DescribedStep& step);

class StepStages {
 public:
  // Errors: why_no_estimate.
  YOTTA_API StepStages(const Cluster& cluster, const DescribedStep& step,
                       Where where = Where::current());
  StepStages(const StepStages&) = delete;

  const DescribedStep& step() const { return step_; }
  const Chip& chip() const { return chip_; }
  const LayerSizes& sizes() const { return z_; }
  const PlanGroups& groups() const { return groups_; }
  const StepWalk& walk() const { return walk_; }
  const PipelinePlan& plan() const { return plan_; }
  const DataAxes& axes() const { return axes_; }

  int ranks() const { return step_.shape.pp; }  // of the pipeline
  int stages() const { return plan_.stages(ranks()); }
  int chunks() const { return plan_.chunks_of_rank(); }
  int64_t microbatches() const { return microbatches_; }
  bool is_sharded() const { return groups_.shards.p > 1; }
  bool has_zero() const { return step_.options.zero.stage > 0; }
  bool has_ddp() const { return !has_zero() && groups_.data.p > 1; }
  // Whether gradients are made in the first W; otherwise they exist before the first step.
  bool makes_gradients() const { return !has_zero() && !has_ddp(); }
  bool has_tied_ends() const { return step_.config.tied && stages() > 1; }
  bool has_root() const { return step_.config.tied && stages() == 1 && is_sharded(); }
  bool sums_experts_apart() const { return z_.mixture.ep > 1; }
  // Bytes that flow between stages.
  double between() const { return static_cast<double>(z_.n * z_.C) * z_.width; }

  const StageFigures& stage(int number) const { return stages_[static_cast<size_t>(number)]; }
  const StageFigures& stage_of(int rank, int chunk) const {
    return stage(stage_on(plan_.placement(), rank, chunk, ranks()));
  }
  YOTTA_API const PlanUnit& unit_of(const LayerFigures* layer) const;
  YOTTA_API std::vector<const PlanUnit*> units_of(int rank, int chunk) const;
  // The parameters of a rank, or its shards of them, in the order of backward.
  YOTTA_API std::vector<WeightReady> parameters_of(int rank) const;
  YOTTA_API std::vector<WeightReady> parameters_of(int rank, int chunk) const;
  // ZeRO's, chunk by chunk. A table that two stages hold has a bucket of its own.
  YOTTA_API std::vector<PlanBucket> zero_buckets(int rank) const;
  const PlanGroup& group_of(const PlanBucket& bucket) const {
    return bucket.experts ? groups_.experts : groups_.data;
  }
  YOTTA_API StageExtras extras() const;
  // Numbers of a layer's norms and positions, which see a rank's own tokens.
  YOTTA_API int64_t own_token_numbers(const LayerFigures* layer) const;

 private:
  YOTTA_API LayerFigures collected(LayerFigures layer) const;
  YOTTA_API void make_layers();
  YOTTA_API std::vector<LayerRun> runs_of(int stage) const;
  YOTTA_API void make_stages();
  YOTTA_API DataAxes data_axes() const;

  DescribedStep step_;
  Chip chip_;
  LayerSizes z_;
  PlanGroups groups_;
  StepWalk walk_;
  PipelinePlan plan_;
  int64_t microbatches_;
  LayerFigures block_, recomputed_, embedding_, head_;
  std::vector<PlanUnit> units_;
  DataAxes axes_;
  std::vector<StageFigures> stages_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <algorithm>

#include "yotta/model/pipelined.hpp"
#include "yotta/plan/block_walk.hpp"
#include "yotta/plan/ends_walk.hpp"

namespace yotta {

std::string why_no_estimate(const DescribedStep& step) {
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
  if (step.config.attention == AttentionKind::plain) return "plain attention";
  if (step.config.dropout > 0) return "dropout";
  if (o.checkpoint.what == Recompute::pointwise) return "pointwise recomputation";
  if (o.checkpoint.what == Recompute::revolve || o.checkpoint.every != 1)
    return "recomputation by slices";
  return "";
}

StepStages::StepStages(const Cluster& cluster, const DescribedStep& step, Where where)
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
LayerFigures StepStages::collected(LayerFigures layer) const {
  if (!has_zero()) return layer;
  for (const WeightReady& each : layer.weights)
    layer.weight.computed += walk_.seconds_of(add_cost(z_.sum_dtype, each.numbers));
  return layer;
}
void StepStages::make_layers() {
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
std::vector<LayerRun> StepStages::runs_of(int stage) const {
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
void StepStages::make_stages() {
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
StageExtras StepStages::extras() const {
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

std::vector<WeightReady> StepStages::parameters_of(int rank, int chunk) const {
  std::vector<WeightReady> all;
  const auto units = units_of(rank, chunk);
  for (size_t i = units.size(); i-- > 0;)
    all.insert(all.end(), units[i]->shards.rbegin(), units[i]->shards.rend());
  return all;
}
std::vector<WeightReady> StepStages::parameters_of(int rank) const {
  std::vector<WeightReady> all;
  for (int chunk = chunks(); chunk-- > 0;) {
    const std::vector<WeightReady> own = parameters_of(rank, chunk);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<PlanBucket> StepStages::zero_buckets(int rank) const {
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

const PlanUnit& StepStages::unit_of(const LayerFigures* layer) const {
  return *std::find_if(units_.begin(), units_.end(),
                       [&](const PlanUnit& unit) { return unit.layer == layer; });
}
std::vector<const PlanUnit*> StepStages::units_of(int rank, int chunk) const {
  std::vector<const PlanUnit*> units;
  for (const LayerRun& run : stage_of(rank, chunk).runs)
    units.insert(units.end(), static_cast<size_t>(run.count), &unit_of(run.layer));
  return units;
}
DataAxes StepStages::data_axes() const {
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

int64_t StepStages::own_token_numbers(const LayerFigures* layer) const {
  const int64_t norm = (z_.is_gpt2 ? 2 : 1) * z_.C;
  if (layer == &embedding_) return z_.is_gpt2 ? step_.config.context * z_.C : 0;
  return layer == &head_ ? norm : 2 * norm;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
