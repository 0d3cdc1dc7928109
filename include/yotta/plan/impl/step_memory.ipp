// The bodies of plan/step_memory.hpp.
#pragma once

#include "yotta/plan/step_memory.hpp"

#include <algorithm>

namespace yotta {

namespace detail {

// What the ranks hold as the actions go by.
class MemoryWalk {
 public:
  explicit MemoryWalk(const StepStages& stages)
      : stages_(stages),
        ranks_(static_cast<size_t>(stages.ranks())),
        went_back_(static_cast<size_t>(stages.stages()), false),
        carries_(static_cast<size_t>(stages.stages()), false),
        grows_(stages.extras().grows) {}

  void act(const OrderedAction& a) {
    const StageFigures& stage = stages_.stage(a.stage);
    Held& held = ranks_[static_cast<size_t>(a.rank)];
    const auto at = static_cast<size_t>(a.stage);
    if (turns(a, held)) end_sums(a.rank, held);
    const bool own = a.op != PipelineOp::F && carries_[at];  // which its peak counts
    const double sums = held.under_way - (own ? stage.carried : 0);
    held.peak = std::max(held.peak, held.now + a.sent * stages_.between() + sums + above(a));
    if (a.op == PipelineOp::F) held.now += stage.saved;
    if (a.op == PipelineOp::I) held.now += stage.kept - stage.saved;
    if (a.op == PipelineOp::B) held.now -= stage.saved;
    if (a.op == PipelineOp::W) held.now -= stage.kept;
    if (a.op == PipelineOp::F || a.op == PipelineOp::I) return;
    if (!carries_[at]) held.under_way += stage.carried;
    if (!went_back_[at]) held.now += grows_ * static_cast<double>(stage.parameters);
    carries_[at] = went_back_[at] = true;
  }
  double peak(int rank) const { return ranks_[static_cast<size_t>(rank)].peak; }

 private:
  struct Held {
    double now = 0, peak = 0;
    double under_way = 0;  // FSDP's sums, of all chunks
    bool syncing = true;   // DDP beside FSDP: as GradientWalk has it
  };

  // Bytes above those that are held when an action begins.
  double above(const OrderedAction& a) const {
    const StageFigures& stage = stages_.stage(a.stage);
    const bool makes = stages_.is_sharded() || stages_.makes_gradients();
    const bool first =
        (makes && !went_back_[static_cast<size_t>(a.stage)]) || (a.is_last && stages_.has_ddp());
    switch (a.op) {
      case PipelineOp::F: return stage.forward_peak + stage.in;
      case PipelineOp::B:
        return (first ? stage.first_backward_peak : stage.backward_peak) + stage.out;
      case PipelineOp::I: return stage.input_peak + stage.out;
      case PipelineOp::W: return first ? stage.first_weight_peak : stage.weight_peak;
    }
    return 0;
  }

  // Where DDP beside FSDP begins to sum, or ends to, FSDP's sums of all chunks end first.
  bool turns(const OrderedAction& a, const Held& held) const {
    const bool asks = a.op == (stages_.stages() == 1 ? PipelineOp::F : PipelineOp::B);
    return asks && stages_.is_sharded() && stages_.has_ddp() && a.is_last != held.syncing;
  }
  void end_sums(int rank, Held& held) {
    for (int chunk = 0; chunk < stages_.chunks(); ++chunk)
      carries_[static_cast<size_t>(
          stage_on(stages_.plan().placement(), rank, chunk, stages_.ranks()))] = false;
    held.under_way = 0, held.syncing = !held.syncing;
  }

  const StepStages& stages_;
  std::vector<Held> ranks_;
  std::vector<bool> went_back_, carries_;  // by stage; carries: a sum is under way
  double grows_;
};

// The ring's scratch of DDP's largest bucket.
inline double ddp_scratch(const StepStages& stages, int rank) {
  const double wide = stages.sizes().wide;
  const auto sets = summed_sets(stages.parameters_of(rank), stages.sums_experts_apart());
  double most = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    const PlanGroup& group = i > 0 ? stages.groups().experts : stages.groups().data;
    for (const PlanBucket& each :
         plan_buckets(sets[i], stages.step().options.ddp.bucket_bytes, wide))
      most = std::max(most, ring_scratch(group, static_cast<double>(each.numbers()) * wide));
  }
  return most;
}
// ZeRO after the last backward pass: sums of all buckets so far, and the ring's scratch for one.
inline double zero_peak(const StepStages& stages, int rank) {
  double sums = 0, most = 0;
  for (const PlanBucket& each : stages.zero_buckets(rank)) {
    const double bytes = static_cast<double>(each.numbers()) * stages.sizes().wide;
    sums += bytes / stages.group_of(each).p;
    most = std::max(most, sums + ring_scratch(stages.group_of(each), bytes));
  }
  return most;
}

struct HeldNumbers {
  double all = 0, stepped = 0;  // parameters; those of which this rank has optimizer state
};
inline HeldNumbers held_numbers(const StepStages& stages, int rank) {
  const PlanGroups& groups = stages.groups();
  const int zero = stages.has_zero() ? groups.data.p : 1,
            experts_zero = stages.has_zero() ? groups.experts.p : 1;
  HeldNumbers held;
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const StageFigures& stage = stages.stage_of(rank, chunk);
    const auto all = static_cast<double>(stage.parameters);
    const double experts = stages.sums_experts_apart() ? static_cast<double>(stage.experts) : 0;
    held.all += all;
    held.stepped += experts / experts_zero + (all - experts) / zero;
  }
  return held;
}

inline MemoryParts memory_of_rank(const StepStages& stages, int rank, double peak) {
  const LayerSizes& z = stages.sizes();
  const HeldNumbers P = held_numbers(stages, rank);
  const int shards = stages.groups().shards.p;
  MemoryParts parts;
  parts.weights = P.all * z.width / shards;
  parts.gradients = P.all * z.wide / shards;
  parts.optimizer = P.stepped * (z.width < 4 ? 3 : 2) * z.wide / shards;  // AdamW's; a master copy
  if (stages.makes_gradients()) peak -= parts.gradients;  // has those that there were
  parts.activations = std::max(0.0, peak);
  double last = 0;  // when all activations are gone
  if (stages.has_zero()) last = zero_peak(stages, rank);
  if (stages.has_ddp()) last = ddp_scratch(stages, rank);
  if (last > peak) parts.activations = 0, parts.buffers = last;
  return parts;
}

}  // namespace detail

YOTTA_INLINE MemoryParts step_memory(const StepStages& stages, PipelineOrders& orders) {
  const PassPair passes = passes_for(stages.plan().kind, stages.ranks(), stages.microbatches());
  const auto order = orders.of(stages.plan(), stages.ranks(), passes.b);
  detail::MemoryWalk walk(stages);
  for (const OrderedAction& a : order->actions) walk.act(a);
  MemoryParts fullest;
  for (int rank = 0; rank < stages.ranks(); ++rank) {
    const MemoryParts parts = detail::memory_of_rank(stages, rank, walk.peak(rank));
    if (parts.bytes() > fullest.bytes()) fullest = parts;
  }
  return fullest;
}

}  // namespace yotta
