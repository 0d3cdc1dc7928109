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
// If the layout does not fit in a chip's memory: the memory alone, seconds 0.
YOTTA_API StepEstimate estimate_fitting(const Cluster& cluster, const DescribedStep& step,
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

// The slowest link that any group along an axis has. Groups of axes fill blocks of chips.
inline AlphaBeta link_along(const Cluster& cluster, const MeshShape& shape, Axis axis) {
  if (shape[axis] == 1) return {0, 0, cluster.gamma};
  const int64_t block = int64_t{1} * stride(shape, axis) * shape[axis];
  size_t level = 0;
  while (level + 1 < cluster.levels.size() && cluster.levels[level].chips % block != 0 &&
         cluster.levels[level].chips < shape.ranks())
    ++level;
  return {cluster.levels[level].alpha, cluster.levels[level].beta, cluster.gamma};
}

inline PlanGroup group_along(const Cluster& cluster, const MeshShape& shape,
                             std::initializer_list<Axis> axes) {
  PlanGroup group{1, {0, 0, cluster.gamma}};
  for (const Axis axis : axes) {
    const AlphaBeta link = link_along(cluster, shape, axis);
    if (shape[axis] > 1 && link.beta >= group.link.beta) group.link = link;
    group.p *= shape[axis];
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
                    detail::link_along(cluster, shape, pp)};
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
    const PassPair passes = passes_for(step_.shape.pp, microbatches_);
    const StepEstimate at_a = pass(passes.a);
    found = passes.a == passes.b ? at_a : pass(passes.b);
    found.seconds = at_microbatch(microbatches_, passes, at_a.seconds, found.seconds);
    found.time.computed =
        at_microbatch(microbatches_, passes, at_a.time.computed, found.time.computed);
    for (size_t i = 0; i < exposed_kinds; ++i)
      found.time.exposed[i] =
          at_microbatch(microbatches_, passes, at_a.time.exposed[i], found.time.exposed[i]);
    found.bubble = found.seconds - found.time.seconds();
    found.memory = memory();
    const int64_t T = step_.options.tokens(step_.config);
    found.model_flops =
        causal_step_flops(step_.config, step_.batch, T) / static_cast<double>(step_.shape.ranks());
    found.mfu = found.model_flops / found.seconds / peak(chip_, step_.config.dtype);
    return found;
  }

  MemoryParts memory() {
    const PassPair passes = passes_for(step_.shape.pp, microbatches_);
    const auto order = cache_.orders.of(plan_, step_.shape.pp, passes.b);
    const auto p = static_cast<size_t>(step_.shape.pp);
    std::vector<double> live(p, 0), peak(p, 0);
    std::vector<bool> made(static_cast<size_t>(stages() * 2), !makes_gradients());
    const double gradient = extras().grows;
    for (const OrderedAction& a : order->actions) {
      const StageFigures& stage = stages_[static_cast<size_t>(a.stage)];
      double& now = live[static_cast<size_t>(a.rank)];
      const double sent = a.sent * between();
      const bool makes = a.op == PipelineOp::B || a.op == PipelineOp::W;
      const bool first = makes && !made[static_cast<size_t>(a.stage)];
      const double above =
          a.op == PipelineOp::F ? stage.forward_peak + stage.in
          : a.op == PipelineOp::B
              ? (first ? stage.first_backward_peak : stage.backward_peak) + stage.out
          : a.op == PipelineOp::I ? stage.input_peak + stage.out
                                  : (first ? stage.first_weight_peak : stage.weight_peak);
      double& most = peak[static_cast<size_t>(a.rank)];
      most = std::max(most, now + sent + above);
      if (a.op == PipelineOp::F) now += stage.saved;
      if (a.op == PipelineOp::I) now += stage.kept - stage.saved;
      if (a.op == PipelineOp::B) now -= stage.saved;
      if (a.op == PipelineOp::W) now -= stage.kept;
      if (first) now += gradient * static_cast<double>(stage.parameters);
      if (makes) made[static_cast<size_t>(a.stage)] = true;
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
  bool splits_backward() const {
    return plan_.kind >= PipelineKind::zb_h1 && plan_.kind <= PipelineKind::interleaved_zb;
  }
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
    embedding_ = collected(embedding_figures(step_.config, z_, groups_, walk_));
    head_ = collected(head_figures(z_, groups_, walk_, tied));
    embedding_.table = -head_.table;
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
    if (has_zero()) extras.borrowed = z_.wide;
    if (makes_gradients()) extras.grows = z_.wide / groups_.shards.p;
    if (has_ddp() && step_.shape.pp == 1) {
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
  // The parameters of a rank in the order of backward; `began`: when each chunk's last W did.
  std::vector<WeightReady> ready_of(int rank, const std::vector<double>& began) const {
    std::vector<WeightReady> all;
    const bool split = splits_backward();
    for (int chunk = chunks(); chunk-- > 0;) {
      double now = began[static_cast<size_t>(chunk)];
      const StageFigures& stage = stage_of(rank, chunk);
      for (size_t i = stage.runs.size(); i-- > 0;)
        for (int64_t layer = 0; layer < stage.runs[i].count; ++layer) {
          const LayerFigures& figures = *stage.runs[i].layer;
          const double weights = now + (split ? 0 : figures.input.seconds());
          const bool again = &figures == &recomputed_;
          for (const WeightReady& each : figures.weights)
            all.push_back(
                {each.numbers, again ? now + (split ? 0 : each.seconds) : weights + each.seconds});
          now = weights + figures.weight.seconds();
        }
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

  // Seconds and waits of what comes after the last backward pass, from `now` on.
  double end_of_step(int rank, const std::vector<double>& began, FsdpWalk* fsdp, double now,
                     PartTime& time) const {
    std::vector<int64_t> tensors;
    double gathered = 0;  // ZeRO's new weights
    const auto until = [&](double end) {
      time[Exposed::data] += std::max(0.0, end - now);
      now = std::max(now, end);
    };
    if (fsdp != nullptr) {
      now = fsdp->finish(now);
      time[Exposed::data] += fsdp->waited();
      time.computed += fsdp->computed();
      until(ddp_end(shard_buckets(fsdp->ready()), groups_.data, z_.wide));
      tensors = units_shards(rank);
    } else {
      const auto ready = ready_of(rank, began);
      if (has_zero()) {
        for (const PlanBucket& each :
             plan_buckets(ready, step_.options.zero.bucket_bytes, z_.wide)) {
          const int64_t padded = shard_numbers(each.numbers(), groups_.data.p) * groups_.data.p;
          until(now + reduce_scatter_seconds(groups_.data, static_cast<double>(padded) * z_.wide));
          gathered += all_gather_seconds(groups_.data, static_cast<double>(padded) * z_.width);
          for (const int64_t shard : first_shards(each.parameters, groups_.data.p))
            tensors.push_back(shard);
        }
      } else {
        if (has_ddp())
          until(ddp_end(plan_buckets(ready, step_.options.ddp.bucket_bytes, z_.wide), groups_.data,
                        z_.wide));
        for (const WeightReady& each : ready) tensors.push_back(each.numbers);
      }
    }
    const double own = own_tokens(rank, time);
    const double stepped = stepping(tensors);
    time.computed += stepped;
    now += own + stepped;
    until(now + gathered);
    return now;
  }

  // Sequence parallelism: the gradients of norms, summed over tp as one vector.
  double own_tokens(int rank, PartTime& time) const {
    if (!z_.shares_tokens) return 0;
    double numbers = 0;
    for (int chunk = 0; chunk < chunks(); ++chunk)
      for (const LayerRun& run : stage_of(rank, chunk).runs)
        numbers += static_cast<double>(run.count * norms_of(*run.layer));
    const int p = is_sharded() ? groups_.shards.p : has_zero() ? groups_.data.p : 1;
    const auto all = static_cast<int64_t>(numbers / p);
    const double copied = walk_.seconds_of(copy_cost("cat", z_.sum_dtype, all));
    const double sent = all_reduce_seconds(groups_.tp, static_cast<double>(all) * z_.wide);
    time.computed += copied, time[Exposed::tp] += sent;
    return copied + sent;
  }
  int64_t norms_of(const LayerFigures& layer) const {
    const int64_t each = (z_.is_gpt2 ? 2 : 1) * z_.C;
    if (&layer == &embedding_) return z_.is_gpt2 ? step_.config.context * z_.C : 0;
    return &layer == &head_ ? each : 2 * each;
  }

  // HSDP: DDP's buckets of FSDP's shards.
  std::vector<PlanBucket> shard_buckets(std::vector<WeightReady> units) const {
    if (groups_.data.p == 1) return {};
    for (WeightReady& each : units) each.numbers = shard_numbers(each.numbers, groups_.shards.p);
    return plan_buckets(units, step_.options.ddp.bucket_bytes, z_.wide);
  }
  std::vector<int64_t> units_shards(int rank) const {
    std::vector<int64_t> tensors;
    for (int chunk = 0; chunk < chunks(); ++chunk)
      for (const LayerRun& run : stage_of(rank, chunk).runs) {
        std::vector<int64_t> parameters;
        for (size_t i = run.layer->weights.size(); i-- > 0;)
          parameters.push_back(run.layer->weights[i].numbers);
        const std::vector<int64_t> own = first_shards(parameters, groups_.shards.p);
        for (int64_t layer = 0; layer < run.count; ++layer)
          tensors.insert(tensors.end(), own.begin(), own.end());
      }
    return tensors;
  }
  FsdpWalk fsdp_of(int rank) const {
    std::vector<std::vector<PlanUnit>> all;
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      std::vector<PlanUnit>& units = all.emplace_back();
      for (const LayerRun& run : stage_of(rank, chunk).runs)
        units.insert(units.end(), static_cast<size_t>(run.count),
                     plan_unit(*run.layer, groups_.shards, walk_, z_.width, z_.wide, z_.sum_dtype));
    }
    return FsdpWalk(std::move(all));
  }

  // One step of m microbatches.
  StepEstimate pass(int64_t m) {
    const int p = step_.shape.pp;
    const auto order = cache_.orders.of(plan_, p, m);
    std::vector<FsdpWalk> fsdp;
    for (int rank = 0; rank < p && is_sharded(); ++rank) fsdp.push_back(fsdp_of(rank));
    std::vector<std::vector<double>> began(static_cast<size_t>(p),
                                           std::vector<double>(static_cast<size_t>(chunks())));
    const double message = groups_.pp.alpha + between() * groups_.pp.beta;
    const std::vector<double> ends =
        play(*order, message, [&](const OrderedAction& a, double begin) {
          const auto rank = static_cast<size_t>(a.rank);
          if (a.is_last) began[rank][static_cast<size_t>(a.chunk)] = begin;
          if (is_sharded()) return fsdp[rank].run(a.chunk, a.op, begin, a.is_last);
          return begin + seconds_of(a);
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
      const double end =
          end_of_step(rank, began[r], is_sharded() ? &fsdp[r] : nullptr, ends[r], time);
      found.seconds = std::max(found.seconds, end);
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
    if (has_zero()) last = P * z_.wide / zero + 2 * largest_bucket(rank) / zero;
    if (has_ddp()) last = ring_scratch(groups_.data, largest_bucket(rank));
    if (last > peak) parts.activations = 0, parts.buffers = last;
    return parts;
  }
  double largest_bucket(int rank) const {
    double most = 0;
    const int64_t bytes =
        has_zero() ? step_.options.zero.bucket_bytes : step_.options.ddp.bucket_bytes;
    const std::vector<double> never(static_cast<size_t>(chunks()), 0);
    for (const PlanBucket& each : plan_buckets(ready_of(rank, never), bytes, z_.wide))
      most = std::max(most, static_cast<double>(each.numbers()) * z_.wide);
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
StepEstimate estimate_fitting(const Cluster& cluster, const DescribedStep& step,
                              EstimateCache& cache) {
  detail::Estimator estimator(cluster, step, cache);
  StepEstimate found;
  found.memory = estimator.memory();
  return found.memory.bytes() > cluster.chip.memory ? found : estimator.estimate();
}

}  // namespace yotta
#endif  // YOTTA_BODIES
