// The bodies of plan/step_memory.hpp.
#pragma once

#include "yotta/plan/step_memory.hpp"

#include <algorithm>

namespace yotta {

namespace detail {

// What a rank holds as its actions go by.
class MemoryWalk {
 public:
  MemoryWalk(const StepStages& stages, double grows)
      : stages_(stages),
        went_back_(static_cast<size_t>(stages.chunks()), false),
        carries_(went_back_),
        grows_(grows) {}

  void act(const OrderedAction& a) {
    const StageFigures& stage = stages_.stage(a.stage);
    const auto at = static_cast<size_t>(a.chunk);
    if (turns(a)) end_sums(), syncing_ = !syncing_;
    if (stages_.scatters() && (stages_.stages() == 1) == (a.op == PipelineOp::F)) end_sums();
    const bool own = a.op != PipelineOp::F && carries_[at];  // which its peak counts
    const double sums = under_way_ - (own ? stage.carried : 0);
    peak_ = std::max(peak_, now_ + a.sent * stages_.between() + sums + above(a));
    if (a.op == PipelineOp::F) now_ += stage.saved;
    if (a.op == PipelineOp::I) now_ += stage.kept - stage.saved;
    if (a.op == PipelineOp::B) now_ -= stage.saved;
    if (a.op == PipelineOp::W) now_ -= stage.kept;
    if (a.op == PipelineOp::F || a.op == PipelineOp::I) return;
    if (!carries_[at]) under_way_ += stage.carried;
    if (!went_back_[at]) now_ += grows_ * static_cast<double>(stage.parameters);
    carries_[at] = went_back_[at] = true;
  }
  double peak() const { return peak_; }

 private:
  // Bytes above those that are held when an action begins.
  double above(const OrderedAction& a) const {
    const StageFigures& stage = stages_.stage(a.stage);
    const bool makes = stages_.is_sharded() || stages_.makes_gradients();
    const bool first =
        (makes && !went_back_[static_cast<size_t>(a.chunk)]) || (a.is_last && stages_.has_ddp());
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
  bool turns(const OrderedAction& a) const {
    const bool asks = a.op == (stages_.stages() == 1 ? PipelineOp::F : PipelineOp::B);
    return asks && stages_.is_sharded() && stages_.has_ddp() && a.is_last != syncing_;
  }
  void end_sums() {
    carries_.assign(carries_.size(), false);
    under_way_ = 0;
  }

  const StepStages& stages_;
  std::vector<bool> went_back_, carries_;  // by chunk; carries: a sum is under way
  double grows_;
  double now_ = 0, peak_ = 0;
  double under_way_ = 0;  // FSDP's and ZeRO-2's sums, of all chunks
  bool syncing_ = true;   // DDP beside FSDP: as GradientWalk has it
};

// No peak of the rank is above this: all that it ever has in flight are of its largest chunk, while
// its largest action runs.
inline double most_peak(const StepStages& stages, int rank, const RankActions& own, double grows) {
  double saved = 0, above = 0, sums = 0, made = 0;
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const StageFigures& stage = stages.stage_of(rank, chunk);
    const double back =
        std::max({stage.backward_peak, stage.first_backward_peak, stage.input_peak});
    saved = std::max({saved, stage.saved, stage.kept});
    above = std::max({above, stage.forward_peak + stage.in, back + stage.out, stage.weight_peak,
                      stage.first_weight_peak});
    sums += stage.carried;
    made += grows * static_cast<double>(stage.parameters);
  }
  return static_cast<double>(own.held) * saved + own.sent * stages.between() + sums + made + above;
}

// The scratch of DDP's largest bucket.
inline double ddp_scratch(const StepStages& stages, int rank) {
  const double wide = stages.sizes().wide;
  const auto sets = summed_sets(stages.parameters_of(rank), stages.sums_experts_apart());
  double most = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    const PlanGroup& group = i > 0 ? stages.groups().experts : stages.groups().data;
    for (const PlanBucket& each :
         plan_buckets(sets[i], stages.step().options.ddp.bucket_bytes, wide))
      most = std::max(most, scratch_bytes(Operation::all_reduce, group,
                                          static_cast<double>(each.numbers()) * wide));
  }
  return most;
}
// ZeRO after the last backward pass: sums of all buckets so far, and the scratch for one.
inline double zero_peak(const StepStages& stages, int rank) {
  double sums = 0, most = 0;
  for (const PlanBucket& each : stages.zero_buckets(rank)) {
    const double bytes = static_cast<double>(each.numbers()) * stages.sizes().wide;
    sums += bytes / stages.group_of(each).p;
    most = std::max(most, sums + bucket_scratch(stages.group_of(each), bytes));
  }
  return most;
}

// What is held when all activations are gone is at most this. No bucket is larger than a full one,
// or than the largest parameter.
inline double most_last_buffers(const StepStages& stages, int rank) {
  if (stages.scatters() || (!stages.has_zero() && !stages.has_ddp())) return 0;
  const NdOptions& o = stages.step().options;
  const double wide = stages.sizes().wide,
               full = static_cast<double>(stages.has_zero() ? o.zero.bucket_bytes
                                                            : o.ddp.bucket_bytes);
  const double bytes = std::max(full, wide * static_cast<double>(stages.largest_shard(rank)));
  double scratch = 0;
  for (const PlanGroup* group : {&stages.groups().data, &stages.groups().experts})
    scratch =
        std::max(scratch, stages.has_zero() ? bucket_scratch(*group, bytes)
                                            : scratch_bytes(Operation::all_reduce, *group, bytes));
  return (stages.has_zero() ? wide * stages.held_by(rank).stepped : 0) + scratch;
}
// When all activations are gone.
inline double last_buffers(const StepStages& stages, int rank) {
  if (stages.has_zero()) return zero_peak(stages, rank);
  return stages.has_ddp() ? ddp_scratch(stages, rank) : 0;
}

inline MemoryParts memory_of_rank(const StepStages& stages, int rank, double peak, double last) {
  const LayerSizes& z = stages.sizes();
  const HeldNumbers N = stages.held_by(rank);
  const int shards = stages.groups().shards.p;
  MemoryParts parts;
  parts.weights = N.all * z.width / shards;
  parts.gradients = (stages.scatters() ? N.stepped : N.all) * z.wide / shards;
  parts.optimizer = N.stepped * (z.width < 4 ? 3 : 2) * z.wide / shards;  // AdamW's; a master copy
  if (stages.makes_gradients()) peak -= parts.gradients;  // has those that there were
  parts.activations = std::max(0.0, peak);
  if (last > peak) parts.activations = 0, parts.buffers = last;
  return parts;
}

// Finds the fullest rank. Only those are walked that may be fuller than the fullest so far.
class FullestRank {
 public:
  FullestRank(const StepStages& stages, PipelineOrders& orders)
      : stages_(stages), order_(orders.of(stages.plan(), stages.ranks(), passes(stages).b)) {}

  MemoryParts find() {
    std::vector<std::pair<double, int>> ranks;  // minus the most that a rank can hold; its number
    for (int rank = 0; rank < stages_.ranks(); ++rank) ranks.emplace_back(-most_bytes(rank), rank);
    std::sort(ranks.begin(), ranks.end());
    MemoryParts fullest;
    int of = -1;
    for (const auto& [most, rank] : ranks) {
      if (-most * (1 + rounding) < fullest.bytes()) break;
      const MemoryParts parts = memory_of(rank);
      const double more = parts.bytes() - fullest.bytes();
      if (more > 0 || (more == 0 && rank < of)) fullest = parts, of = rank;
    }
    return fullest;
  }
  MemoryParts memory_of(int rank) {
    MemoryWalk walk(stages_, grows_);
    for (const OrderedAction& a : actions_of(rank).actions) walk.act(a);
    const bool may_outlast = most_last_buffers(stages_, rank) > walk.peak();
    return memory_of_rank(stages_, rank, walk.peak(), may_outlast ? last_of(rank) : 0);
  }

 private:
  static constexpr double rounding = 1e-9;

  static PassPair passes(const StepStages& stages) {
    return passes_for(stages.plan().kind, stages.ranks(), stages.microbatches());
  }
  const RankActions& actions_of(int rank) const {
    return order_->by_rank[static_cast<size_t>(rank)];
  }
  double most_bytes(int rank) const {
    const double peak = most_peak(stages_, rank, actions_of(rank), grows_);
    return memory_of_rank(stages_, rank, peak, most_last_buffers(stages_, rank)).bytes();
  }
  double last_of(int rank) {
    if (last_rank_ < 0 || !stages_.alike(last_rank_, rank))
      last_ = last_buffers(stages_, rank), last_rank_ = rank;
    return last_;
  }

  const StepStages& stages_;
  std::shared_ptr<const PipelineOrder> order_;
  double grows_ = stages_.extras().grows;
  double last_ = 0;     // last_buffers, of ranks like
  int last_rank_ = -1;  // this one
};

}  // namespace detail

YOTTA_INLINE MemoryParts step_memory(const StepStages& stages, PipelineOrders& orders) {
  return detail::FullestRank(stages, orders).find();
}
YOTTA_INLINE MemoryParts rank_memory(const StepStages& stages, PipelineOrders& orders, int rank) {
  return detail::FullestRank(stages, orders).memory_of(rank);
}

}  // namespace yotta
