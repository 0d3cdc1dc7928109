// The bodies of plan/step_stages.hpp.
#pragma once

#include "yotta/plan/step_stages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "yotta/model/pipelined.hpp"
#include "yotta/nn/elementwise.hpp"

namespace yotta {

YOTTA_INLINE std::string why_no_estimate(const DescribedStep& step) {
  const NdOptions& o = step.options;
  const MixtureConfig& mixture = step.config.mixture;
  const int64_t own = chunk_count(step.batch, step.shape.data_ranks(), 0);
  if (own > o.microbatches && own % o.microbatches != 0) return "microbatches of unequal size";
  const int64_t N = layer_sizes(step).N;
  if (N % step.shape.tp != 0)
    return fmt::format("a microbatch of {} tokens, which tp {} does not divide", N, step.shape.tp);
  if (mixture.experts > 0 && o.pieces != Pieces::none) return "Async-TP beside a mixture";
  if (mixture.experts > 0 && mixture.capacity > 0 && mixture.capacity < 1)
    return "a capacity below 1, which drops tokens";
  if (o.schedule == PipelineKind::dual_pipe || o.schedule == PipelineKind::dual_pipe_v)
    return "pairs of F and B that run together";
  if (o.schedule == PipelineKind::automatic) return "schedules that are searched for";
  if (o.naive_gradients) return "one all_reduce for each gradient";
  if (o.checkpoint.what == Recompute::revolve || o.checkpoint.every != 1)
    return "recomputation by slices";
  return "";
}

YOTTA_INLINE StepStages::StepStages(const Cluster& cluster, const DescribedStep& step,
                                    LayerRecords& records, Where where)
    : step_(step),
      z_(layer_sizes(step)),
      groups_(plan_groups(cluster, step.shape, step.pp_outermost, step.one_ring)),
      kernels_{cluster.chip, step_.efficiency},
      plan_(step.options.pipeline()),
      microbatches_(std::min(step.options.microbatches,
                             chunk_count(step.batch, step.shape.data_ranks(), 0))) {
  if (const std::string why = why_no_estimate(step); !why.empty())
    fail(where, "there is no formula for {}: run_described can run it, if ranks do the same work",
         why);
  make_layers(records);
  make_stages();
}

// ZeRO adds each parameter's gradient to its bucket.
YOTTA_INLINE LayerFigures StepStages::collected(LayerFigures layer) const {
  if (!has_zero()) return layer;
  int64_t numbers = -1;  // of the weight before, and what adding it takes: experts are alike
  double seconds = 0;
  for (const WeightReady& each : layer.weights) {
    if (each.numbers != numbers)
      numbers = each.numbers, seconds = kernels_.seconds(add_cost(z_.sum_dtype, numbers));
    layer.weight.computed += seconds;
  }
  return layer;
}
YOTTA_INLINE void StepStages::make_blocks(LayerRecords& records, LayerQuestion question,
                                          LayerFigures& block, LayerFigures& recomputed) const {
  block = collected(records.of(question).block);
  if (step_.operators_again) block = operators_again(block);
  recomputed = checkpointed_figures(block);
  if (const Recompute what = step_.options.checkpoint.what; what != Recompute::all) {
    question.recompute = what;
    recomputed = collected(records.of(question).block);
  }
}
YOTTA_INLINE void StepStages::make_layers(LayerRecords& records) {
  LayerQuestion question = layer_question(kernels_.chip, step_, z_, groups_);
  const RecordedLayers& made = records.of(question);
  make_blocks(records, question, block_, recomputed_);
  if (step_.config.mixture.dense_layers > 0) {
    question.config = dense_config(question.config);
    make_blocks(records, question, dense_, dense_recomputed_);
  }
  embedding_ = collected(made.embedding);
  head_ = collected(made.head);
  for (const LayerFigures* layer :
       {&embedding_, &dense_, &dense_recomputed_, &block_, &recomputed_, &head_})
    units_.push_back(plan_unit(*layer, groups_.shards, z_, kernels_)),
        units_.back().stays = !step_.options.fsdp.reshard_after_forward;
  if (has_tied_ends())
    for (PlanUnit* const end : {&units_.front(), &units_.back()})
      *end = plan_end(*end->layer, groups_.shards, z_, kernels_);
  if (has_root()) {
    units_.front() = plan_root(embedding_, head_, groups_.shards, z_, kernels_);
    units_.back() = {&head_};
  }
  if (step_.by_matrix && is_sharded())
    for (PlanUnit& unit : units_) take_turns(unit, groups_.shards, z_, kernels_);
  axes_ = data_axes();
}
YOTTA_INLINE std::vector<LayerRun> StepStages::runs_of(int stage) const {
  const StageLayers entries =
      stage_entries(step_.config, stages(), stage, step_.options.ends_count);
  const int64_t ends = (stage == 0 ? 1 : 0) + (stage + 1 == stages() ? 1 : 0);
  const int64_t count = entries.last - entries.first - ends, most = step_.options.checkpoint_blocks;
  const int64_t again = step_.options.checkpoint.what == Recompute::none ? 0
                        : most < 0                                       ? count
                                                                         : std::min(count, most);
  // Of this stage's blocks the first `dense` have no experts.
  const int64_t first = entries.first - (stage == 0 ? 0 : 1);
  const int64_t dense = std::clamp<int64_t>(step_.config.mixture.dense_layers - first, 0, count);
  std::vector<LayerRun> runs;
  const auto add = [&](const LayerFigures& layer, int64_t from, int64_t to) {
    if (to > from) runs.push_back({&layer, to - from});
  };
  if (stage == 0) runs.push_back({&embedding_, 1});
  add(dense_recomputed_, 0, std::min(dense, again));
  add(dense_, again, dense);
  add(recomputed_, dense, again);
  add(block_, std::max(dense, again), count);
  if (stage + 1 == stages()) runs.push_back({&head_, 1});
  return runs;
}
YOTTA_INLINE void StepStages::make_stages() {
  using Sets = std::array<double, 2>;
  std::vector<Sets> made(static_cast<size_t>(ranks()), Sets{});  // by rank: bytes of gradients
  stages_.resize(static_cast<size_t>(stages()));
  StageExtras beside = extras();
  Sets last_before = {};
  for (int stage = stages(); stage-- > 0;) {
    const bool folds = plan_.placement() == Placement::vee;
    Sets& before =
        made[static_cast<size_t>(folds ? std::min(stage, stages() - 1 - stage) : stage % ranks())];
    Sets counted = {};  // no more than changes something
    for (size_t set = 0; set < before.size(); ++set) {
      if (beside.sets[set].scratch > 0)
        counted[set] = std::min(before[set], 2 * beside.scratch_after);
      beside.sets[set].before = counted[set];
    }
    std::vector<LayerRun> runs = runs_of(stage);
    if (figures_.empty() || figures_.back().runs != runs || counted != last_before)
      figures_.push_back(stage_figures(std::move(runs), beside));
    const StageFigures& figures = figures_.back();
    stages_[static_cast<size_t>(stage)] = &figures;
    last_before = counted;
    const int64_t experts = sums_experts_apart() ? figures.experts : 0;
    before[0] += z_.wide * static_cast<double>(figures.parameters - experts);
    before[1] += z_.wide * static_cast<double>(experts);
  }
}
YOTTA_INLINE StageExtras StepStages::extras() const {
  StageExtras extras;
  if (is_sharded()) {
    extras.gathered = z_.width;
    extras.keeps = !step_.options.fsdp.reshard_after_forward;
    extras.unreduced = z_.wide * (1 + 1.0 / groups_.shards.p);
    const double unit = z_.wide * static_cast<double>(block_.parameters());
    extras.summing =
        z_.wide * scratch_bytes(Operation::reduce_scatter, groups_.shards, unit) / unit;
  }
  extras.gradient = z_.wide;
  if (has_root()) extras.root = embedding_.parameters() + head_.parameters();
  if (has_zero()) extras.passing = z_.wide;
  extras.experts_apart = sums_experts_apart();
  if (scatters()) {
    extras.bucket_bytes = step_.options.zero.bucket_bytes;
    extras.data = groups_.data, extras.experts = groups_.experts;
  }
  if (makes_gradients()) extras.grows = z_.wide / groups_.shards.p;
  if (has_ddp() && !is_sharded()) {
    extras.scratch_after = static_cast<double>(step_.options.ddp.bucket_bytes);
    extras.sets[0].scratch =
        scratch_bytes(Operation::all_reduce, groups_.data, extras.scratch_after);
    if (extras.experts_apart)
      extras.sets[1].scratch =
          scratch_bytes(Operation::all_reduce, groups_.experts, extras.scratch_after);
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

YOTTA_INLINE HeldNumbers StepStages::held_by(int rank) const {
  const int zero = has_zero() ? groups_.data.p : 1,
            experts_zero = has_zero() ? groups_.experts.p : 1;
  HeldNumbers held;
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    const StageFigures& stage = stage_of(rank, chunk);
    held.all += static_cast<double>(stage.parameters);
    if (sums_experts_apart()) held.experts += static_cast<double>(stage.experts);
  }
  held.stepped = held.experts / experts_zero + (held.all - held.experts) / zero;
  return held;
}
YOTTA_INLINE int64_t StepStages::largest_shard(int rank) const {
  int64_t largest = 0;
  for (int chunk = 0; chunk < chunks(); ++chunk)
    for (const LayerRun& run : stage_of(rank, chunk).runs)
      for (const WeightReady& each : unit_of(run.layer).shards)
        largest = std::max(largest, each.numbers);
  return largest;
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

YOTTA_INLINE bool StepStages::alike(int a, int b) const {
  for (int chunk = 0; chunk < chunks(); ++chunk)
    if (&stage_of(a, chunk) != &stage_of(b, chunk)) return false;
  return true;
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
  axes.interference = step_.efficiency.interference;
  axes.shards = groups_.shards, axes.data = groups_.data, axes.experts = groups_.experts;
  axes.experts_apart = sums_experts_apart();
  axes.scatters = scatters(), axes.wide = z_.wide;
  axes.bucket_bytes = scatters() ? step_.options.zero.bucket_bytes : step_.options.ddp.bucket_bytes;
  axes.add_kernel = chip().launch_overhead;
  constexpr int64_t many = int64_t{1} << 30;
  axes.add_number = (kernels_.seconds(add_cost(z_.sum_dtype, many)) - axes.add_kernel) / many;
  if (has_zero() && !scatters()) axes.data.p = 1;
  const PlanGroup* kinds[] = {&groups_.tp, &groups_.cp, &groups_.ep};
  for (size_t i = 0; i < std::size(kinds); ++i) {
    axes.beside_shards[i] = kinds[i]->p > 1 && kinds[i]->port() == groups_.shards.port();
    axes.in_node[i] = kinds[i]->p > 1 && kinds[i]->port() == 0;
    axes.beside_data[i] = kinds[i]->p > 1 && kinds[i]->port() == groups_.data.port();
  }
  axes.is_alone = stages() == 1;
  if (groups_.pp.p > 1 && groups_.pp.port() == groups_.shards.port())
    axes.message = between() * groups_.pp.link.beta;
  return axes;
}

YOTTA_INLINE int64_t StepStages::own_token_numbers(const LayerFigures* layer) const {
  const int64_t norm = (z_.is_gpt2 ? 2 : 1) * z_.C;
  if (layer == &embedding_) return z_.is_gpt2 ? step_.config.context * z_.C : 0;
  const LatentConfig& l = step_.config.latent;
  const int64_t latents = (l.q_rank + l.kv_rank) * (z_.C + 1) + l.turned * z_.C;
  return layer == &head_ ? norm : 2 * norm + latents;
}

}  // namespace yotta
