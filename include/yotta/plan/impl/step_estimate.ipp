// The bodies of plan/step_estimate.hpp.
#pragma once

#include "yotta/plan/step_estimate.hpp"

#include <algorithm>

#include "yotta/nn/narrow.hpp"

namespace yotta {

namespace detail {

// Plays the pipeline of a layout, and what follows it.
class StepPlayer {
 public:
  StepPlayer(const StepStages& stages, PipelineOrders& orders) : stages_(stages), orders_(orders) {}

  StepEstimate estimate() {
    StepEstimate found;
    const PassPair passes =
        passes_for(stages_.plan().kind, stages_.ranks(), stages_.microbatches());
    const StepEstimate at_a = pass(passes.a);
    found = passes.a == passes.b ? at_a : pass(passes.b);
    found.seconds = at_microbatch(stages_.microbatches(), passes, at_a.seconds, found.seconds);
    found.time.computed =
        at_microbatch(stages_.microbatches(), passes, at_a.time.computed, found.time.computed);
    for (size_t i = 0; i < exposed_kinds; ++i)
      found.time.exposed[i] = at_microbatch(stages_.microbatches(), passes, at_a.time.exposed[i],
                                            found.time.exposed[i]);
    found.bubble = std::max(0.0, found.seconds - found.time.seconds());
    found.memory = step_memory(stages_, orders_);
    const int64_t T = stages_.step().options.tokens(stages_.step().config);
    found.model_flops = causal_step_flops(stages_.step().config, stages_.step().batch, T) /
                        static_cast<double>(stages_.step().shape.ranks());
    found.mfu =
        found.model_flops / found.seconds / peak(stages_.chip(), stages_.step().config.dtype);
    return found;
  }

  // Without bubbles, and with nothing but FSDP's messages that show.
  double least_seconds() const {
    double least = 0;
    const auto m = static_cast<double>(stages_.microbatches());
    for (int rank = 0; rank < stages_.ranks(); ++rank) {
      double busy = 0, sent = 0;
      for (int chunk = 0; chunk < stages_.chunks(); ++chunk) {
        const StageFigures& stage = stages_.stage_of(rank, chunk);
        busy += stage.forward.seconds() + stage.backward().seconds();
        for (const LayerRun& run : stage.runs) {
          const PlanUnit& unit = stages_.unit_of(run.layer);
          sent += static_cast<double>(run.count) * (unit.gathers() + unit.reduce);
        }
      }
      least = std::max({least, m * busy, m * sent});
    }
    return least;
  }

 private:
  // AdamW, and the norm of the gradients before it.
  double stepping(const std::vector<int64_t>& tensors) const {
    double seconds = 0;
    for (const int64_t n : tensors) {
      const double numbers = static_cast<double>(n), bytes = stages_.sizes().wide * numbers;
      seconds += stages_.walk().seconds_of(
          {"sum_of_squares", stages_.sizes().sum_dtype, 2 * numbers, bytes, 0});
      seconds += stages_.walk().seconds_of(
          {"adamw", stages_.sizes().sum_dtype, 14 * numbers, 4 * bytes, 3 * bytes});
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
    if (stages_.has_zero()) {
      zero(rank, tensors, time);
    } else {
      for (int chunk = 0; chunk < stages_.chunks(); ++chunk)
        for (const PlanUnit* unit : stages_.units_of(rank, chunk))
          for (const WeightReady& shard : unit->shards) tensors.push_back(shard.numbers);
    }
    tied(rank, time);
    own_tokens(rank, time);
    time.computed += stepping(tensors);
    return now + time.seconds() - before;
  }
  // Bucket by bucket.
  void zero(int rank, std::vector<int64_t>& tensors, PartTime& time) const {
    for (const PlanBucket& each : stages_.zero_buckets(rank)) {
      const PlanGroup& group = stages_.group_of(each);
      const auto padded = static_cast<double>(shard_numbers(each.numbers(), group.p) * group.p);
      time[Exposed::data] += reduce_scatter_seconds(group, padded * stages_.sizes().wide) +
                             all_gather_seconds(group, padded * stages_.sizes().width);
      for (const int64_t shard : first_shards(each.parameters, group.p)) tensors.push_back(shard);
    }
  }
  // A table that both ends of a pipeline hold.
  void tied(int rank, PartTime& time) const {
    if (!stages_.has_tied_ends()) return;
    const int last = stages_.ranks() - 1;
    const bool folds = stages_.plan().placement() == Placement::vee;  // both ends on rank 0
    if (rank != 0 && (folds || rank != last)) return;
    const PlanGroup ends{folds || last == 0 ? 1 : 2, stages_.groups().pp.link};
    const int64_t numbers =
        shard_numbers(stages_.sizes().V * stages_.sizes().C,
                      stages_.has_zero() ? stages_.groups().data.p : stages_.groups().shards.p);
    time[Exposed::data] +=
        all_reduce_seconds(ends, stages_.sizes().wide * static_cast<double>(numbers));
  }

  // Sequence parallelism: the gradients of norms, summed over tp as one vector.
  void own_tokens(int rank, PartTime& time) const {
    if (!stages_.sizes().shares_tokens) return;
    double numbers = 0;
    for (int chunk = 0; chunk < stages_.chunks(); ++chunk)
      for (const LayerRun& run : stages_.stage_of(rank, chunk).runs)
        numbers += static_cast<double>(run.count * stages_.own_token_numbers(run.layer));
    const int p = stages_.is_sharded() ? stages_.groups().shards.p
                  : stages_.has_zero() ? stages_.groups().data.p
                                       : 1;
    const auto all = static_cast<int64_t>(numbers / p);
    time.computed += stages_.walk().seconds_of(copy_cost("cat", stages_.sizes().sum_dtype, all));
    time[Exposed::tp] +=
        all_reduce_seconds(stages_.groups().tp, static_cast<double>(all) * stages_.sizes().wide);
  }
  GradientWalk gradients_of(int rank) const {
    std::vector<std::vector<const PlanUnit*>> all;
    for (int chunk = 0; chunk < stages_.chunks(); ++chunk)
      all.push_back(stages_.units_of(rank, chunk));
    return {stages_.axes(), std::move(all)};
  }

  // One step of m microbatches.
  StepEstimate pass(int64_t m) {
    const int p = stages_.ranks();
    const auto order = orders_.of(stages_.plan(), p, m);
    std::vector<GradientWalk> gradients;
    for (int rank = 0; rank < p; ++rank) gradients.push_back(gradients_of(rank));
    const PipelineMessage message{stages_.groups().pp.link.alpha,
                                  stages_.between() * stages_.groups().pp.link.beta};
    const std::vector<double> ends =
        play(*order, message, [&](const OrderedAction& a, double begin) {
          if (!stages_.is_sharded() && !(stages_.has_ddp() && a.is_last))
            return begin + seconds_of(a);
          return gradients[static_cast<size_t>(a.rank)].run(a.chunk, a.op, begin, a.is_last);
        });
    StepEstimate found;
    for (int rank = 0; rank < p; ++rank) {
      const auto r = static_cast<size_t>(rank);
      PartTime time;
      for (int chunk = 0; chunk < stages_.chunks(); ++chunk) {
        const StageFigures& stage = stages_.stage_of(rank, chunk);
        PartTime each = stage.forward;
        time += static_cast<double>(m) * (each += stage.backward());
      }
      found.seconds = std::max(found.seconds, end_of_step(rank, gradients[r], ends[r], time));
      found.time += (1.0 / p) * time;
    }
    return found;
  }
  double seconds_of(const OrderedAction& a) const {
    const StageFigures& stage = stages_.stage(a.stage);
    switch (a.op) {
      case PipelineOp::F: return stage.forward.seconds();
      case PipelineOp::B: return stage.backward().seconds();
      case PipelineOp::I: return stage.input.seconds();
      case PipelineOp::W: return stage.weight.seconds();
    }
    return 0;
  }

  const StepStages& stages_;
  PipelineOrders& orders_;
};

}  // namespace detail

YOTTA_INLINE StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step,
                                        EstimateCache& cache) {
  return detail::StepPlayer(StepStages(cluster, step), cache.orders).estimate();
}
YOTTA_INLINE StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step) {
  EstimateCache cache;
  return estimate_step(cluster, step, cache);
}
YOTTA_INLINE StepBound bound_step(const Cluster& cluster, const DescribedStep& step,
                                  EstimateCache& cache) {
  const StepStages stages(cluster, step);
  return {step_memory(stages, cache.orders),
          detail::StepPlayer(stages, cache.orders).least_seconds()};
}

}  // namespace yotta
