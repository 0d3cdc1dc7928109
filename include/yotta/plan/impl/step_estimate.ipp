// The bodies of plan/step_estimate.hpp.
#pragma once

#include "yotta/plan/step_estimate.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "yotta/nn/narrow.hpp"
#include "yotta/plan/mfu.hpp"

namespace yotta {

namespace detail {

// Plays the pipeline of a layout, and what follows it.
class StepPlayer {
 public:
  StepPlayer(const StepStages& stages, PipelineOrders& orders) : stages_(stages), orders_(orders) {}

  StepEstimate estimate() {
    StepEstimate found = timed();
    found.memory = step_memory(stages_, orders_);
    const DescribedStep& step = stages_.step();
    found.model_flops = needed_flops(step.config, step.batch, step.options.tokens(step.config)) /
                        static_cast<double>(step.shape.ranks());
    found.mfu = found.model_flops / found.seconds / peak(stages_.chip(), step.config.dtype);
    return found;
  }

  // Its seconds, and of what they are.
  StepEstimate timed() {
    StepEstimate found;
    make_ranks();
    const PassPair passes =
        passes_for(stages_.plan().kind, stages_.ranks(), stages_.microbatches());
    const StepEstimate at_a = pass(passes.a);
    found = passes.a == passes.b ? at_a : pass(passes.b);
    found.seconds = at_microbatch(stages_.microbatches(), passes, at_a.seconds, found.seconds);
    if (passes.a != passes.b) found.seconds = std::max(found.seconds, least_seconds());
    found.time.computed =
        at_microbatch(stages_.microbatches(), passes, at_a.time.computed, found.time.computed);
    for (size_t i = 0; i < exposed_kinds; ++i)
      found.time.exposed[i] = at_microbatch(stages_.microbatches(), passes, at_a.time.exposed[i],
                                            found.time.exposed[i]);
    found.bubble = std::max(0.0, found.seconds - found.time.seconds());
    return found;
  }

  // The rank that is least free: what it waits for its first action, all its actions, and what the
  // stages before it do after its last one. Or the last stage, to which all others are before.
  double least_seconds() {
    find_least();
    const bool splits = splits_backward(stages_.plan().kind);
    const PipelineOp back = splits ? PipelineOp::I : PipelineOp::B;
    const double hop = stages_.groups().pp.link.alpha + message_seconds();
    const double last_weight = least_of(0, PipelineOp::W);
    double least = last_stage(back, hop), fill = 0, drain = 0;
    HeldNumbers held;
    double end = 0;
    for (int rank = 0; rank < stages_.ranks(); ++rank) {
      const Busy busy = busy_of(rank);
      const HeldNumbers own = stages_.held_by(rank);
      if (rank == 0 || own.all != held.all || own.experts != held.experts)
        held = own, end = least_end(held);  // ranks in the middle are alike
      const double to_input = busy.all - busy.weight + fill + drain + (rank > 0 ? last_weight : 0);
      const double all = splits ? std::max(busy.all + fill, to_input) : busy.all + fill + drain;
      least = std::max({least, busy.sent + end, all + end});
      const int first = stage_number(rank, 0);
      fill += least_of(first, PipelineOp::F) + hop;
      drain += least_of(first, back) + hop;
    }
    return least;
  }

 private:
  double last_stage(PipelineOp back, double hop) const {
    double seconds = least_end(stages_.held_by(0));
    for (int stage = 0; stage < stages_.stages(); ++stage) {
      const bool is_last = stage + 1 == stages_.stages();
      const auto m = static_cast<double>(is_last ? stages_.microbatches() : 1);
      seconds += m * (least_of(stage, PipelineOp::F) + least_of(stage, back));
      const bool folds = stages_.plan().placement() == Placement::vee;
      if (!is_last && !(folds && stage + 1 == stages_.ranks())) seconds += 2 * hop;
    }
    return seconds;
  }
  struct Busy {
    double all = 0, weight = 0;  // seconds of a rank's actions; of these, W
    double sent = 0;             // of FSDP's messages, or ZeRO-2's
  };
  Busy busy_of(int rank) const {
    Busy busy;
    for (int chunk = 0; chunk < stages_.chunks(); ++chunk) {
      const int stage = stage_number(rank, chunk);
      if (splits_backward(stages_.plan().kind)) {
        const double weight = least_of(stage, PipelineOp::W);
        busy.weight += weight, busy.all += least_of(stage, PipelineOp::I) + weight;
      } else {
        busy.all += least_of(stage, PipelineOp::B);
      }
      busy.all += least_of(stage, PipelineOp::F);
      busy.sent += least_[static_cast<size_t>(stage)].sent;
    }
    const auto m = static_cast<double>(stages_.microbatches());
    return {m * busy.all, m * busy.weight, m * busy.sent};
  }
  // FSDP's messages of an action. Before its first unit computes, that is gathered; the sum of its
  // last may end in the next action.
  struct Sent {
    double all = 0, first = 0, last = 0;
  };
  Sent sent_by(const StageFigures& stage, PipelineOp op) const {
    Sent sent;
    if (!stages_.is_sharded()) return sent;
    const bool forward = op == PipelineOp::F, reduces = op == PipelineOp::B || op == PipelineOp::W;
    const auto gather = [&](const PlanUnit& unit) {
      return op == PipelineOp::W || (!forward && unit.stays) ? 0 : unit.gather;
    };
    for (const LayerRun& run : stage.runs) {
      const PlanUnit& unit = stages_.unit_of(run.layer);
      sent.all += static_cast<double>(run.count) * (gather(unit) + (reduces ? unit.reduce : 0));
    }
    const PlanUnit &front = stages_.unit_of(stage.runs.front().layer),
                   &back = stages_.unit_of(stage.runs.back().layer);
    sent.first = gather(forward ? front : back);
    sent.last = reduces ? front.reduce : 0;
    return sent;
  }
  // ZeRO-2's sums of a microbatch, as if each group had one bucket. Both groups may sum at once.
  double summed(const StageFigures& stage) const {
    if (!stages_.scatters()) return 0;
    const auto seconds = [&](const PlanGroup& group, int64_t numbers) {
      return collective_seconds(Operation::reduce_scatter, group,
                                static_cast<double>(numbers) * stages_.sizes().wide);
    };
    const int64_t experts = stages_.sums_experts_apart() ? stage.experts : 0;
    return std::max(seconds(stages_.groups().data, stage.parameters - experts),
                    seconds(stages_.groups().experts, experts));
  }
  // Of a stage: what each action takes at least, and messages of F and B.
  struct StageLeast {
    std::array<double, 4> seconds = {};  // by PipelineOp
    double sent = 0;
  };
  // Stages in the middle are alike.
  void find_least() {
    for (int stage = 0; stage < stages_.stages(); ++stage) {
      const StageFigures& each = stages_.stage(stage);
      if (stage > 0 && &each == &stages_.stage(stage - 1)) {
        least_.push_back(least_.back());
        continue;
      }
      StageLeast& least = least_.emplace_back();
      for (const PipelineOp op : {PipelineOp::F, PipelineOp::B, PipelineOp::I, PipelineOp::W})
        least.seconds[static_cast<size_t>(op)] = least_of(each, op);
      const double sums = summed(each);
      least.sent = sent_by(each, PipelineOp::F).all + sent_by(each, PipelineOp::B).all + sums;
      double& back = least.seconds[static_cast<size_t>(PipelineOp::B)];
      if (stages_.stages() == 1) back = std::max(back, sums);  // they end before the next F
    }
  }
  double least_of(int stage, PipelineOp op) const {
    return least_[static_cast<size_t>(stage)].seconds[static_cast<size_t>(op)];
  }
  int stage_number(int rank, int chunk) const {
    return stage_on(stages_.plan().placement(), rank, chunk, stages_.ranks());
  }
  // An action takes no less. A second of a message costs a second where it shows, and where it
  // hides what it takes from kernels: the least is between.
  double least_of(const StageFigures& stage, PipelineOp op) const {
    const Sent sent = sent_by(stage, op);
    const double between = sent.all - sent.first - sent.last;
    const double taken = stages_.axes().interference;
    return sent.first + std::max(seconds_of(stage, op) + taken / (1 + taken) * between, between);
  }
  // The end of a step, as if a rank's parameters were one tensor in one bucket.
  double least_end(const HeldNumbers& held) const {
    const int shards = stages_.groups().shards.p;
    const double stepped = held.stepped / shards;
    double seconds = stepping({static_cast<int64_t>(stepped)});
    if (!stages_.has_zero()) return seconds;
    const bool apart = stages_.sums_experts_apart();
    for (const bool experts : {false, true}) {
      const double numbers = experts ? held.experts : held.all - held.experts;
      const PlanGroup& group = experts ? stages_.groups().experts : stages_.groups().data;
      if (numbers == 0 || (experts && !apart)) continue;
      if (!stages_.scatters())
        seconds +=
            collective_seconds(Operation::reduce_scatter, group, numbers * stages_.sizes().wide);
      seconds += collective_seconds(Operation::all_gather, group, numbers * stages_.sizes().width);
    }
    return seconds;
  }
  double message_seconds() const { return stages_.between() * stages_.groups().pp.link.beta; }

  // AdamW, and the norm of the gradients before it: what all numbers take, and a launch for each
  // tensor.
  double stepping(const std::vector<int64_t>& tensors) const {
    if (tensors.empty()) return 0;
    const DType dtype = stages_.sizes().sum_dtype;
    const auto numbers =
        static_cast<double>(std::accumulate(tensors.begin(), tensors.end(), int64_t{0}));
    const double bytes = stages_.sizes().wide * numbers;
    return stages_.kernels().seconds({"sum_of_squares", dtype, 2 * numbers, bytes, 0}) +
           stages_.kernels().seconds({"adamw", dtype, 14 * numbers, 4 * bytes, 3 * bytes}) +
           2 * static_cast<double>(tensors.size() - 1) * stages_.chip().launch_overhead;
  }

  // After the last sum: the optimizer, and with ZeRO the new weights.
  PartTime end_of_step(int rank) const {
    PartTime time;
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
    return time;
  }
  // Bucket by bucket. ZeRO-2 has summed before.
  void zero(int rank, std::vector<int64_t>& tensors, PartTime& time) const {
    for (const PlanBucket& each : stages_.zero_buckets(rank)) {
      const PlanGroup& group = stages_.group_of(each);
      const auto padded = static_cast<double>(shard_numbers(each.numbers(), group.p) * group.p);
      if (!stages_.scatters())
        time[Exposed::data] +=
            collective_seconds(Operation::reduce_scatter, group, padded * stages_.sizes().wide);
      time[Exposed::data] +=
          collective_seconds(Operation::all_gather, group, padded * stages_.sizes().width);
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
    time[Exposed::data] += collective_seconds(Operation::all_reduce, ends,
                                              stages_.sizes().wide * static_cast<double>(numbers));
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
    time.computed += stages_.kernels().seconds(copy_cost("cat", stages_.sizes().sum_dtype, all));
    time[Exposed::tp] += collective_seconds(Operation::all_reduce, stages_.groups().tp,
                                            static_cast<double>(all) * stages_.sizes().wide);
  }
  // A rank before its first action, and what it does after its last.
  struct Rank {
    GradientWalk gradients;
    PartTime end;
  };
  void make_ranks() {
    for (int rank = 0; rank < stages_.ranks(); ++rank) {
      const bool again = rank > 0 && !stages_.has_tied_ends() && stages_.alike(rank - 1, rank);
      ranks_.push_back(again ? ranks_.back() : Rank{gradients_of(rank), end_of_step(rank)});
    }
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
    std::vector<Rank> ranks = ranks_;
    const PipelineMessage message{stages_.groups().pp.link.alpha, message_seconds()};
    const std::vector<double> ends =
        play(*order, message, [&](const OrderedAction& a, double begin) {
          const bool sums = stages_.scatters() || (stages_.has_ddp() && a.is_last);
          if (!stages_.is_sharded() && !sums)
            return begin + seconds_of(stages_.stage(a.stage), a.op);
          GradientWalk& gradients = ranks[static_cast<size_t>(a.rank)].gradients;
          return gradients.run(a.chunk, a.op, begin, a.is_last);
        });
    StepEstimate found;
    for (int rank = 0; rank < p; ++rank) {
      auto& [gradients, end] = ranks[static_cast<size_t>(rank)];
      PartTime time;
      for (int chunk = 0; chunk < stages_.chunks(); ++chunk) {
        const StageFigures& stage = stages_.stage_of(rank, chunk);
        PartTime each = stage.forward;
        time += static_cast<double>(m) * (each += stage.backward());
      }
      const double last = gradients.finish(ends[static_cast<size_t>(rank)]);
      time += gradients.extra();
      found.seconds = std::max(found.seconds, last + end.seconds());
      found.time += (1.0 / p) * (time += end);
    }
    return found;
  }
  static double seconds_of(const StageFigures& stage, PipelineOp op) {
    switch (op) {
      case PipelineOp::F: return stage.forward.seconds();
      case PipelineOp::B: return stage.backward().seconds();
      case PipelineOp::I: return stage.input.seconds();
      case PipelineOp::W: return stage.weight.seconds();
    }
    return 0;
  }

  const StepStages& stages_;
  PipelineOrders& orders_;
  std::vector<StageLeast> least_;  // by stage, once it is asked for
  std::vector<Rank> ranks_;        // so too
};

}  // namespace detail

YOTTA_INLINE StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step,
                                        EstimateCache& cache) {
  return detail::StepPlayer(StepStages(cluster, step, cache.layers), cache.orders).estimate();
}
YOTTA_INLINE StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step) {
  EstimateCache cache;
  return estimate_step(cluster, step, cache);
}
YOTTA_INLINE double step_seconds(const Cluster& cluster, const DescribedStep& step,
                                 EstimateCache& cache) {
  return detail::StepPlayer(StepStages(cluster, step, cache.layers), cache.orders).timed().seconds;
}
YOTTA_INLINE StepBound bound_step(const Cluster& cluster, const DescribedStep& step,
                                  EstimateCache& cache, double capacity) {
  const StepStages stages(cluster, step, cache.layers);
  StepBound bound{step_memory(stages, cache.orders), 0};
  if (bound.memory.bytes() <= capacity)
    bound.seconds = detail::StepPlayer(stages, cache.orders).least_seconds();
  return bound;
}

}  // namespace yotta
