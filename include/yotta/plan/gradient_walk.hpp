// Gradient walk: what the data axes add to a step: DDP's buckets, ZeRO's, FSDP's units.
//
//     DDP      last microbatch   │ W7 │ W6 │ W5 │ ... │ W0 │          buckets leave as they fill
//              network                 │ 7 6 ═══ │ 5 4 ═══ │ ... ═══│   what is left shows
//     ZeRO-1   after backward    reduce_scatter bucket by bucket; AdamW on a p-th; all_gather
//     FSDP     each microbatch   unit i + 1 is gathered while unit i computes; backward unit i - 1,
//                                and the sum of unit i + 1 is under way
//     HSDP     both              the last sums of shards leave for the other groups
//
// The rules by which buckets are cut and units are gathered are those of parallel/ddp.hpp and
// parallel/fsdp.hpp, gone through with seconds in place of numbers. For equal units the results are
// those of parallel/fsdp_cost.hpp.
// A layer's own messages may use the port that gradients or weights use at that time. Then each
// gets half of it (machine/shared_ports.hpp): the layer takes longer, and so do they.
// Letters: p ranks of a group, u a unit.
#pragma once

#include <utility>
#include <vector>

#include "yotta/parallel/pipeline_actions.hpp"
#include "yotta/plan/gradient_lanes.hpp"
#include "yotta/plan/plan_buckets.hpp"

namespace yotta {

// ---- a rank's step ----

// What a rank's DDP and FSDP do while its pipeline runs.
class GradientWalk {
 public:
  // Units of each chunk, in the order of the stack. They outlive the walk, as the axes do.
  YOTTA_API GradientWalk(const DataAxes& axes, std::vector<std::vector<const PlanUnit*>> chunks);

  // Runs an action from `begin` on, and returns when it ends. `is_last`: the chunk's last backward.
  YOTTA_API double run(int chunk, PipelineOp op, double begin, bool is_last);
  // After the last action: waits for what is under way.
  YOTTA_API double finish(double now);

  // What came on top of the layers' own time.
  const PartTime& extra() const { return extra_; }

 private:
  using Units = std::vector<const PlanUnit*>;
  bool has_fsdp() const { return axes_.shards.p > 1; }
  bool has_ddp() const { return axes_.data.p > 1; }
  YOTTA_API double start_first(const PlanUnit& unit, double now);
  YOTTA_API double wait(double now, double until);
  YOTTA_API double forward(const Units& units, double now);
  YOTTA_API double backward(const Units& units, PipelineOp op, double now);
  YOTTA_API double weights(const PlanUnit& unit, double now);
  YOTTA_API double finish_reduce(int chunk, double now);
  YOTTA_API double finish_reduces(double now);
  YOTTA_API void ready(int chunk, const std::vector<WeightReady>& weights, double now);

  const DataAxes& axes_;
  std::vector<Units> chunks_;
  GradientLanes lanes_;
  // DDP's buckets of weights that one group sums.
  struct Buckets {
    PlanGroup group;
    GradientLane lane;
    std::vector<double> ends = {};             // numbers up to each bucket's end
    std::vector<double> ready = {}, all = {};  // numbers of each chunk
    size_t left = 0;                           // that have left
  };
  YOTTA_API void add_buckets(const PlanGroup& group, GradientLane lane);
  YOTTA_API void leave(Buckets& buckets, double now);
  bool belongs(const WeightReady& weight, const Buckets& to) const {
    return (axes_.experts_apart && weight.expert) == (to.lane == GradientLane::experts);
  }
  void gather(const PlanUnit& unit, double now) {
    lanes_.start(GradientLane::shards, now, unit.gather, unit.gather_work);
  }
  double gathered() const { return lanes_.free(GradientLane::shards); }

  struct Reduction {
    const PlanUnit* unit = nullptr;
    double end = 0;
    bool is_last = false;
  };
  std::vector<Reduction> reducing_;        // of each chunk
  int chunk_ = 0;                          // that runs
  bool is_last_ = false, syncing_ = true;  // DDP counts gradients as ready
  std::vector<Buckets> buckets_;           // of all weights but experts; of experts
  PartTime extra_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)

namespace yotta {

GradientWalk::GradientWalk(const DataAxes& axes, std::vector<Units> chunks)
    : axes_(axes), chunks_(std::move(chunks)), lanes_(axes), reducing_(chunks_.size()) {
  if (!has_ddp()) return;
  add_buckets(axes.data, GradientLane::data);
  if (axes.experts_apart) add_buckets(axes.experts, GradientLane::experts);
}

void GradientWalk::add_buckets(const PlanGroup& group, GradientLane lane) {
  Buckets buckets{group, lane};
  buckets.all = buckets.ready = std::vector<double>(chunks_.size(), 0);
  std::vector<int64_t> parameters;  // in the order of backward
  for (size_t chunk = chunks_.size(); chunk-- > 0;)
    for (size_t i = chunks_[chunk].size(); i-- > 0;) {
      const std::vector<WeightReady>& shards = chunks_[chunk][i]->shards;
      for (size_t shard = shards.size(); shard-- > 0;) {
        if (!belongs(shards[shard], buckets)) continue;
        parameters.push_back(shards[shard].numbers);
        buckets.all[chunk] += static_cast<double>(shards[shard].numbers);
      }
    }
  double end = 0;
  for (const PlanBucket& each : plan_buckets(parameters, axes_.bucket_bytes, axes_.wide))
    buckets.ends.push_back(end += static_cast<double>(each.numbers()));
  buckets_.push_back(std::move(buckets));
}

double GradientWalk::run(int chunk, PipelineOp op, double begin, bool is_last) {
  const Units& units = chunks_[static_cast<size_t>(chunk)];
  chunk_ = chunk;
  is_last_ = is_last;
  // The trainer asks before each microbatch, a pipeline before each backward pass.
  const bool asks = axes_.is_alone == (op == PipelineOp::F);
  if (asks && has_fsdp() && has_ddp() && is_last != syncing_) {
    begin = finish_reduces(begin);
    syncing_ = is_last;
  }
  return op == PipelineOp::F ? forward(units, begin) : backward(units, op, begin);
}

double GradientWalk::forward(const Units& units, double now) {
  double here = start_first(*units[0], now);
  for (size_t i = 0; i < units.size(); ++i) {
    now = wait(now, here);
    if (i + 1 < units.size()) gather(*units[i + 1], now);
    now = lanes_.compute(units[i]->layer->forward, now, extra_);
    here = gathered();
  }
  return now;
}

double GradientWalk::backward(const Units& units, PipelineOp op, double now) {
  double here = op == PipelineOp::W ? now : start_first(*units.back(), now);
  for (size_t i = units.size(); i-- > 0;) {
    if (op != PipelineOp::W) {
      now = wait(now, here);
      if (i > 0 && !units[i - 1]->stays) gather(*units[i - 1], now);
      now = lanes_.compute(units[i]->layer->input, now, extra_);
      here = gathered();
    }
    if (op == PipelineOp::I) continue;
    if (units.size() == 1) now = finish_reduce(chunk_, now);  // the unit's own
    const double before = gathered();
    now = lanes_.compute(units[i]->layer->weight, now, extra_);
    here += gathered() - before;
    now = weights(*units[i], now);
  }
  return now;
}

// W has ended: its gradients leave.
double GradientWalk::weights(const PlanUnit& unit, double now) {
  if (!has_fsdp()) {
    if (is_last_) ready(chunk_, unit.shards, now);
    return now;
  }
  now = finish_reduce(chunk_, now);
  const double end = lanes_.start(GradientLane::shards, now, unit.reduce, unit.reduce_work);
  reducing_[static_cast<size_t>(chunk_)] = {&unit, end, is_last_};
  return now;
}

double GradientWalk::finish_reduce(int chunk, double now) {
  const Reduction done = std::exchange(reducing_[static_cast<size_t>(chunk)], {});
  if (done.unit == nullptr) return now;
  now = wait(now, done.end) + done.unit->add;
  extra_.computed += done.unit->add;
  if (done.is_last) ready(chunk, done.unit->shards, now);
  return now;
}
double GradientWalk::finish_reduces(double now) {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk)
    now = finish_reduce(static_cast<int>(chunk), now);
  return now;
}

// Some of a chunk's gradients are summed up on this rank: full buckets leave, in their order.
void GradientWalk::ready(int chunk, const std::vector<WeightReady>& weights, double now) {
  for (Buckets& buckets : buckets_) {
    for (const WeightReady& each : weights)
      if (belongs(each, buckets))
        buckets.ready[static_cast<size_t>(chunk)] += static_cast<double>(each.numbers);
    leave(buckets, now);
  }
}
void GradientWalk::leave(Buckets& b, double now) {
  double done = 0;
  for (size_t chunk = chunks_.size(); chunk-- > 0;) {
    done += b.ready[chunk];
    if (b.ready[chunk] < b.all[chunk]) break;
  }
  for (; b.left < b.ends.size() && b.ends[b.left] <= done; ++b.left) {
    const double begin = b.left == 0 ? 0 : b.ends[b.left - 1];
    const double bytes = (b.ends[b.left] - begin) * axes_.wide;
    lanes_.start(b.lane, now, all_reduce_seconds(b.group, bytes),
                 port_seconds(all_reduce_seconds, b.group, bytes));
  }
}

double GradientWalk::finish(double now) {
  now = finish_reduces(now);
  return wait(now, std::max(lanes_.free(GradientLane::data), lanes_.free(GradientLane::experts)));
}

double GradientWalk::wait(double now, double until) {
  extra_[Exposed::data] += std::max(0.0, until - now);
  return std::max(now, until);
}

// An action's first gather, beside the message that the action before it has sent.
double GradientWalk::start_first(const PlanUnit& unit, double now) {
  const double end = lanes_.start(GradientLane::shards, now, unit.gather, unit.gather_work);
  const double late = std::min(unit.gather_work, axes_.message);
  lanes_.delay(GradientLane::shards, end + late - gathered());
  return end + late;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
