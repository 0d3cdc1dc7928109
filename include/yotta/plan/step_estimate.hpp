// Step estimate: what a training step takes on a described cluster, by formula, in microseconds.
//
//     a layout, as run_described takes it       model/described_step.hpp
//       └ F, I, W of a block, embedding, head   block_walk.hpp: ops and messages, one by one
//          └ stages                             stage_walk.hpp: sums, and the most that is held
//             └ all actions of the pipeline     pipeline_walk.hpp: max of what they wait for
//                └ gradients                    gradient_walk.hpp: DDP, ZeRO-1, FSDP, HSDP
//
// run_described runs the code of the layout under the clock and takes seconds or minutes; this says
// the same within 3%. Nothing is fitted: every term is the cost formula of an op, a collective or a
// schedule, which stands beside it.
//
//     seconds = computed + exposed (tp, cp, ep, data) + bubble        averages over the stages
//     bytes   = weights + gradients + optimizer + activations + buffers     of the fullest rank
//
// Contract: expect_layout(); links of a cluster with switches. Left out, and why: messages of two
// axes that meet at one port of a chip are not slowed by each other.
#pragma once

#include <string>

#include "yotta/model/described_step.hpp"
#include "yotta/plan/pipeline_walk.hpp"
#include "yotta/plan/stage_walk.hpp"

namespace yotta {

struct MemoryParts {
  double weights = 0, gradients = 0, optimizer = 0;  // held from step to step
  double activations = 0, buffers = 0;               // at the fullest moment of a step

  double states() const { return weights + gradients + optimizer; }
  double bytes() const { return states() + activations + buffers; }
};

struct StepEstimate {
  double seconds = 0, bubble = 0;
  PartTime time;           // computed and exposed
  MemoryParts memory;      // of the fullest rank
  double model_flops = 0;  // of a rank: causal attention, as causal_step_flops counts
  double mfu = 0;

  double exposed() const { return time.seconds() - time.computed; }
  double flops_a_second() const { return model_flops / seconds; }
};

// What layouts on one cluster share, kept between estimates. May be used by several threads.
struct EstimateCache {
  PipelineOrders orders;
};

// The links of the groups of a layout on a cluster, in its axes' order: tp, cp, pp, ep, fsdp, dp.
YOTTA_API PlanGroups plan_groups(const Cluster& cluster, const MeshShape& shape);

YOTTA_API StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step,
                                     EstimateCache& cache);
YOTTA_API StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step);
// What takes a part of that time: memory, and seconds that no step of this layout is below.
struct StepBound {
  MemoryParts memory;
  double seconds = 0;
};
YOTTA_API StepBound bound_step(const Cluster& cluster, const DescribedStep& step,
                               EstimateCache& cache);

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <algorithm>

#include "yotta/model/pipelined.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/plan/block_walk.hpp"
#include "yotta/plan/gradient_walk.hpp"

namespace yotta {

namespace detail {

// A group along an axis, with the slowest link that any of them has. Groups fill blocks of chips.
inline PlanGroup group_along(const Cluster& cluster, const MeshShape& shape, Axis axis) {
  PlanGroup group{shape[axis], {0, 0, cluster.gamma}, -1};
  if (group.p == 1) return group;
  const int64_t block = int64_t{1} * stride(shape, axis) * group.p;
  size_t level = 0;
  while (level + 1 < cluster.levels.size() && cluster.levels[level].chips % block != 0 &&
         cluster.levels[level].chips < shape.ranks())
    ++level;
  group.link.alpha = cluster.levels[level].alpha, group.link.beta = cluster.levels[level].beta;
  group.port = level > 0 ? 1 : 0;
  return group;
}

inline PlanGroup group_along(const Cluster& cluster, const MeshShape& shape,
                             std::initializer_list<Axis> axes) {
  PlanGroup group{1, {0, 0, cluster.gamma}, -1};
  for (const Axis axis : axes) {
    const PlanGroup along = group_along(cluster, shape, axis);
    if (along.p > 1 && along.link.alpha >= group.link.alpha)
      group.link = along.link, group.port = along.port;
    group.p *= along.p;
  }
  return group;
}

}  // namespace detail

PlanGroups plan_groups(const Cluster& cluster, const MeshShape& shape) {
  using enum Axis;
  const auto along = [&](std::initializer_list<Axis> axes) {
    return detail::group_along(cluster, shape, axes);
  };
  const bool sharded = shape.dp_shard > 1;
  PlanGroups groups{along({tp}),
                    along({cp}),
                    along({ep}),
                    along({cp, dp_shard}),
                    {},
                    {},
                    detail::group_along(cluster, shape, pp).link};
  groups.data = sharded ? along({ep, dp_replicate}) : along({cp, ep, dp_replicate});
  groups.experts = sharded ? along({dp_replicate}) : along({cp, dp_replicate});
  if (!sharded) groups.shards.p = 1;
  return groups;
}

namespace detail {

class Estimator {
 public:
  Estimator(const Cluster& cluster, const DescribedStep& step, EstimateCache& cache)
      : step_(step),
        chip_(cluster.chip),
        cache_(cache),
        z_(layer_sizes(step)),
        groups_(plan_groups(cluster, step.shape)),
        walk_(chip_, step.efficiency),
        plan_(step.options.pipeline()),
        microbatches_(std::min(step.options.microbatches,
                               chunk_count(step.batch, step.shape.data_ranks(), 0))) {
    make_layers();
    make_stages();
  }

  StepEstimate estimate() {
    StepEstimate found;
    const PassPair passes = passes_for(plan_.kind, step_.shape.pp, microbatches_);
    const StepEstimate at_a = pass(passes.a);
    found = passes.a == passes.b ? at_a : pass(passes.b);
    found.seconds = at_microbatch(microbatches_, passes, at_a.seconds, found.seconds);
    found.time.computed =
        at_microbatch(microbatches_, passes, at_a.time.computed, found.time.computed);
    for (size_t i = 0; i < exposed_kinds; ++i)
      found.time.exposed[i] =
          at_microbatch(microbatches_, passes, at_a.time.exposed[i], found.time.exposed[i]);
    found.bubble = std::max(0.0, found.seconds - found.time.seconds());
    found.memory = memory();
    const int64_t T = step_.options.tokens(step_.config);
    found.model_flops =
        causal_step_flops(step_.config, step_.batch, T) / static_cast<double>(step_.shape.ranks());
    found.mfu = found.model_flops / found.seconds / peak(chip_, step_.config.dtype);
    return found;
  }

  // Without bubbles, and with nothing but FSDP's messages that show.
  double least_seconds() const {
    double least = 0;
    const auto m = static_cast<double>(microbatches_);
    for (int rank = 0; rank < step_.shape.pp; ++rank) {
      double busy = 0, sent = 0;
      for (int chunk = 0; chunk < chunks(); ++chunk) {
        const StageFigures& stage = stage_of(rank, chunk);
        busy += stage.forward.seconds() + stage.backward().seconds();
        for (const LayerRun& run : stage.runs) {
          const PlanUnit& unit = unit_of(run.layer);
          sent += static_cast<double>(run.count) * (2 * unit.gather + unit.reduce);
        }
      }
      least = std::max({least, m * busy, m * sent});
    }
    return least;
  }

  MemoryParts memory() {
    const PassPair passes = passes_for(plan_.kind, step_.shape.pp, microbatches_);
    const auto order = cache_.orders.of(plan_, step_.shape.pp, passes.b);
    const auto p = static_cast<size_t>(step_.shape.pp);
    std::vector<double> live(p, 0), peak(p, 0);
    std::vector<bool> made(static_cast<size_t>(stages()), false);
    std::vector<double> carried(p, 0);  // FSDP's sum under way
    const double gradient = extras().grows;
    for (const OrderedAction& a : order->actions) {
      const StageFigures& stage = stages_[static_cast<size_t>(a.stage)];
      double& now = live[static_cast<size_t>(a.rank)];
      const double sent = a.sent * between();
      double& under_way = carried[static_cast<size_t>(a.rank)];
      const bool went_back = made[static_cast<size_t>(a.stage)];
      const double sum = under_way - (a.op != PipelineOp::F && went_back ? stage.carried : 0);
      const bool makes = a.op == PipelineOp::B || a.op == PipelineOp::W;
      const bool first = makes && !made[static_cast<size_t>(a.stage)];
      const bool is_quiet = a.is_last && is_sharded() && has_ddp();  // its sums have been waited for
      const double above =
          a.op == PipelineOp::F ? stage.forward_peak + stage.in
          : a.op == PipelineOp::B
              ? (first || is_quiet ? stage.first_backward_peak : stage.backward_peak) + stage.out
          : a.op == PipelineOp::I ? stage.input_peak + stage.out
                                  : (first ? stage.first_weight_peak : stage.weight_peak);
      double& most = peak[static_cast<size_t>(a.rank)];
      most = std::max(most, now + sent + sum + above);
      if (a.op == PipelineOp::F) now += stage.saved;
      if (a.op == PipelineOp::I) now += stage.kept - stage.saved;
      if (a.op == PipelineOp::B) now -= stage.saved;
      if (a.op == PipelineOp::W) now -= stage.kept;
      if (first) now += gradient * static_cast<double>(stage.parameters);
      if (!first) continue;
      made[static_cast<size_t>(a.stage)] = true;
      under_way += stage.carried;
    }
    MemoryParts fullest;
    for (int rank = 0; rank < step_.shape.pp; ++rank) {
      const MemoryParts parts = of_rank(rank, peak[static_cast<size_t>(rank)]);
      if (parts.bytes() > fullest.bytes()) fullest = parts;
    }
    return fullest;
  }

 private:
  bool is_sharded() const { return groups_.shards.p > 1; }
  bool has_zero() const { return step_.options.zero.stage > 0; }
  // In the first W; else they are there before the first step.
  bool makes_gradients() const { return !has_zero() && !has_ddp(); }
  bool has_ddp() const { return !has_zero() && groups_.data.p > 1; }
  // What flows between stages.
  double between() const { return static_cast<double>(z_.n * z_.C) * z_.width; }

  // ZeRO adds each parameter's gradient to its bucket.
  LayerFigures collected(LayerFigures layer) const {
    if (!has_zero()) return layer;
    for (const WeightReady& each : layer.weights)
      layer.weight.computed += walk_.seconds_of(add_cost(z_.sum_dtype, each.numbers));
    return layer;
  }
  void make_layers() {
    const bool tied = step_.config.tied && stages() == 1;
    block_ = collected(block_figures(z_, groups_, walk_));
    recomputed_ = checkpointed_figures(block_);
    embedding_ = collected(embedding_figures(step_.config, z_, groups_, walk_, tied));
    head_ = collected(head_figures(z_, groups_, walk_, tied));
    for (const LayerFigures* layer : {&embedding_, &block_, &recomputed_, &head_})
      units_.push_back(plan_unit(*layer, groups_.shards, z_, walk_));
    axes_ = data_axes();
  }
  int stages() const { return plan_.stages(step_.shape.pp); }

  void make_stages() {
    const CheckpointOptions& checkpoint = step_.options.checkpoint;
    for (int stage = 0; stage < stages(); ++stage) {
      const StageLayers blocks = layers_of_stage(step_.config.layers, stages(), stage);
      const int64_t count = blocks.last - blocks.first, most = step_.options.checkpoint_blocks;
      const int64_t again = checkpoint.what != Recompute::all ? 0
                            : most < 0                        ? count
                                                              : std::min(count, most);
      std::vector<LayerRun> runs;
      if (stage == 0) runs.push_back({&embedding_, 1});
      if (again > 0) runs.push_back({&recomputed_, again});
      if (count > again) runs.push_back({&block_, count - again});
      if (stage + 1 == stages()) runs.push_back({&head_, 1});
      stages_.push_back(stage_figures(std::move(runs), extras()));
    }
  }
  StageExtras extras() const {
    StageExtras extras;
    if (is_sharded()) {
      extras.gathered = z_.width;
      extras.unreduced = z_.wide * (1 + 1.0 / groups_.shards.p);
    }
    extras.gradient = z_.wide;
    if (has_zero()) extras.passing = z_.wide;
    if (makes_gradients()) extras.grows = z_.wide / groups_.shards.p;
    if (has_ddp() && !is_sharded() && step_.shape.pp == 1) {
      extras.scratch_after = static_cast<double>(step_.options.ddp.bucket_bytes);
      extras.scratch = ring_scratch(groups_.data, extras.scratch_after);
    }
    return extras;
  }

  // ---- the end of a step, on one rank ----

  int chunks() const { return plan_.chunks_of_rank(); }
  const StageFigures& stage_of(int rank, int chunk) const {
    return stages_[static_cast<size_t>(stage_on(plan_.placement(), rank, chunk, step_.shape.pp))];
  }
  // The parameters of a rank, or its shards of them, in the order of backward.
  std::vector<int64_t> parameters_of(int rank) const {
    std::vector<int64_t> all;
    for (int chunk = chunks(); chunk-- > 0;) {
      const auto units = units_of(rank, chunk);
      for (size_t i = units.size(); i-- > 0;)
        all.insert(all.end(), units[i]->shards.rbegin(), units[i]->shards.rend());
    }
    return all;
  }
  // AdamW, and the norm of the gradients before it.
  double stepping(const std::vector<int64_t>& tensors) const {
    double seconds = 0;
    for (const int64_t n : tensors) {
      const double numbers = static_cast<double>(n), bytes = z_.wide * numbers;
      seconds += walk_.seconds_of({"sum_of_squares", z_.sum_dtype, 2 * numbers, bytes, 0});
      seconds += walk_.seconds_of({"adamw", z_.sum_dtype, 14 * numbers, 4 * bytes, 3 * bytes});
    }
    return seconds;
  }

  // From the end of the last backward pass on: what is left of the sums, the optimizer, and with
  // ZeRO the new weights.
  double end_of_step(int rank, GradientWalk& gradients, double now, PartTime& time) const {
    now = gradients.finish(now);
    time += gradients.extra();
    const double before = time.seconds();
    std::vector<int64_t> tensors;
    if (has_zero()) {
      zero(rank, tensors, time);
    } else {
      for (int chunk = 0; chunk < chunks(); ++chunk)
        for (const PlanUnit* unit : units_of(rank, chunk))
          tensors.insert(tensors.end(), unit->shards.begin(), unit->shards.end());
    }
    tied(rank, time);
    own_tokens(rank, time);
    time.computed += stepping(tensors);
    return now + time.seconds() - before;
  }
  // A table that two stages hold has a bucket of its own.
  std::vector<PlanBucket> zero_buckets(int rank) const {
    std::vector<int64_t> part;
    std::vector<PlanBucket> buckets;
    const auto cut = [&] {
      for (PlanBucket& each : plan_buckets(part, step_.options.zero.bucket_bytes, z_.wide))
        buckets.push_back(std::move(each));
      part.clear();
    };
    const bool apart = step_.config.tied && stages() > 1;
    for (const int64_t each : parameters_of(rank)) {
      const bool is_table = apart && each == z_.V * z_.C;
      if (is_table) cut();
      part.push_back(each);
      if (is_table) cut();
    }
    cut();
    return buckets;
  }
  // Bucket by bucket.
  void zero(int rank, std::vector<int64_t>& tensors, PartTime& time) const {
    for (const PlanBucket& each : zero_buckets(rank)) {
      const int p = groups_.data.p;
      const auto padded = static_cast<double>(shard_numbers(each.numbers(), p) * p);
      time[Exposed::data] += reduce_scatter_seconds(groups_.data, padded * z_.wide) +
                             all_gather_seconds(groups_.data, padded * z_.width);
      for (const int64_t shard : first_shards(each.parameters, p)) tensors.push_back(shard);
    }
  }
  // A table that both ends of a pipeline hold.
  void tied(int rank, PartTime& time) const {
    if (!step_.config.tied || stages() == 1) return;
    const int last = step_.shape.pp - 1;
    const bool folds = plan_.placement() == Placement::vee;  // both ends on rank 0
    if (rank != 0 && (folds || rank != last)) return;
    const PlanGroup ends{folds || last == 0 ? 1 : 2, groups_.pp};
    const int64_t numbers = shard_numbers(z_.V * z_.C, has_zero() ? groups_.data.p : groups_.shards.p);
    time[Exposed::data] += all_reduce_seconds(ends, z_.wide * static_cast<double>(numbers));
  }

  // Sequence parallelism: the gradients of norms, summed over tp as one vector.
  void own_tokens(int rank, PartTime& time) const {
    if (!z_.shares_tokens) return;
    double numbers = 0;
    for (int chunk = 0; chunk < chunks(); ++chunk)
      for (const LayerRun& run : stage_of(rank, chunk).runs)
        numbers += static_cast<double>(run.count * norms_of(*run.layer));
    const int p = is_sharded() ? groups_.shards.p : has_zero() ? groups_.data.p : 1;
    const auto all = static_cast<int64_t>(numbers / p);
    time.computed += walk_.seconds_of(copy_cost("cat", z_.sum_dtype, all));
    time[Exposed::tp] += all_reduce_seconds(groups_.tp, static_cast<double>(all) * z_.wide);
  }
  int64_t norms_of(const LayerFigures& layer) const {
    const int64_t each = (z_.is_gpt2 ? 2 : 1) * z_.C;
    if (&layer == &embedding_) return z_.is_gpt2 ? step_.config.context * z_.C : 0;
    return &layer == &head_ ? each : 2 * each;
  }

  const PlanUnit& unit_of(const LayerFigures* layer) const {
    return *std::find_if(units_.begin(), units_.end(),
                         [&](const PlanUnit& unit) { return unit.layer == layer; });
  }
  std::vector<const PlanUnit*> units_of(int rank, int chunk) const {
    std::vector<const PlanUnit*> units;
    for (const LayerRun& run : stage_of(rank, chunk).runs)
      units.insert(units.end(), static_cast<size_t>(run.count), &unit_of(run.layer));
    return units;
  }
  GradientWalk gradients_of(int rank) const {
    std::vector<std::vector<const PlanUnit*>> all;
    for (int chunk = 0; chunk < chunks(); ++chunk) all.push_back(units_of(rank, chunk));
    return {axes_, std::move(all)};
  }
  DataAxes data_axes() const {
    DataAxes axes{groups_.shards, groups_.data, step_.options.ddp.bucket_bytes, z_.wide, {}, {}};
    if (has_zero()) axes.data.p = 1;
    const PlanGroup* kinds[] = {&groups_.tp, &groups_.cp, &groups_.ep};
    for (size_t i = 0; i < std::size(kinds); ++i) {
      axes.beside_shards[i] = kinds[i]->p > 1 && kinds[i]->port == groups_.shards.port;
      axes.beside_data[i] = kinds[i]->p > 1 && kinds[i]->port == groups_.data.port;
    }
    return axes;
  }

  // One step of m microbatches.
  StepEstimate pass(int64_t m) {
    const int p = step_.shape.pp;
    const auto order = cache_.orders.of(plan_, p, m);
    std::vector<GradientWalk> gradients;
    for (int rank = 0; rank < p; ++rank) gradients.push_back(gradients_of(rank));
    const PipelineMessage message{groups_.pp.alpha, between() * groups_.pp.beta};
    const std::vector<double> ends =
        play(*order, message, [&](const OrderedAction& a, double begin) {
          if (!is_sharded() && !(has_ddp() && a.is_last)) return begin + seconds_of(a);
          return gradients[static_cast<size_t>(a.rank)].run(a.chunk, a.op, begin, a.is_last);
        });
    StepEstimate found;
    for (int rank = 0; rank < p; ++rank) {
      const auto r = static_cast<size_t>(rank);
      PartTime time;
      for (int chunk = 0; chunk < chunks(); ++chunk) {
        const StageFigures& stage = stage_of(rank, chunk);
        PartTime each = stage.forward;
        time += static_cast<double>(m) * (each += stage.backward());
      }
      found.seconds = std::max(found.seconds, end_of_step(rank, gradients[r], ends[r], time));
      found.time += (1.0 / p) * time;
    }
    return found;
  }
  double seconds_of(const OrderedAction& a) const {
    const StageFigures& stage = stages_[static_cast<size_t>(a.stage)];
    switch (a.op) {
      case PipelineOp::F: return stage.forward.seconds();
      case PipelineOp::B: return stage.backward().seconds();
      case PipelineOp::I: return stage.input.seconds();
      case PipelineOp::W: return stage.weight.seconds();
    }
    return 0;
  }

  // ---- memory ----

  MemoryParts of_rank(int rank, double peak) const {
    int64_t numbers = 0;
    for (int chunk = 0; chunk < chunks(); ++chunk) numbers += stage_of(rank, chunk).parameters;
    const auto P = static_cast<double>(numbers);
    const int shards = groups_.shards.p, zero = has_zero() ? groups_.data.p : 1;
    const double states = (z_.width < 4 ? 3 : 2) * z_.wide;  // AdamW's, and a master copy
    MemoryParts parts;
    parts.weights = P * z_.width / shards;
    parts.gradients = P * z_.wide / shards;
    parts.optimizer = P * states / shards / zero;
    if (makes_gradients()) peak -= parts.gradients;  // has those that there were
    parts.activations = std::max(0.0, peak);
    double last = 0;  // beside all of these, when all activations are gone
    if (has_zero()) last = zero_peak(rank);
    if (has_ddp()) last = ring_scratch(groups_.data, largest_bucket(rank));
    if (last > peak) parts.activations = 0, parts.buffers = last;
    return parts;
  }
  double largest_bucket(int rank) const {
    int64_t most = 0;
    for (const PlanBucket& each :
         plan_buckets(parameters_of(rank), step_.options.ddp.bucket_bytes, z_.wide))
      most = std::max(most, each.numbers());
    return static_cast<double>(most) * z_.wide;
  }
  // Sums of all buckets so far, and the ring's scratch for one.
  double zero_peak(int rank) const {
    double sums = 0, most = 0;
    for (const PlanBucket& each : zero_buckets(rank)) {
      const double bytes = static_cast<double>(each.numbers()) * z_.wide;
      sums += bytes / groups_.data.p;
      most = std::max(most, sums + ring_scratch(groups_.data, bytes));
    }
    return most;
  }

  DescribedStep step_;
  Chip chip_;
  EstimateCache& cache_;
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

}  // namespace detail

StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step,
                           EstimateCache& cache) {
  return detail::Estimator(cluster, step, cache).estimate();
}
StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step) {
  EstimateCache cache;
  return estimate_step(cluster, step, cache);
}
StepBound bound_step(const Cluster& cluster, const DescribedStep& step, EstimateCache& cache) {
  detail::Estimator estimator(cluster, step, cache);
  return {estimator.memory(), estimator.least_seconds()};
}

}  // namespace yotta
#endif  // YOTTA_BODIES
