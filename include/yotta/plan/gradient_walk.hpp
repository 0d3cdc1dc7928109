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

#include <vector>

#include "yotta/parallel/pipeline_actions.hpp"
#include "yotta/plan/plan_buckets.hpp"

namespace yotta {

// ---- a rank's step ----

struct DataAxes {
  PlanGroup shards, data;    // FSDP's; DDP's
  int64_t bucket_bytes = 0;  // DDP's
  double wide = 4;           // bytes of a gradient's number
  std::array<bool, exposed_kinds> beside_shards = {}, beside_data = {};  // who shares their port
  bool is_alone = true;                                                  // no pipeline
  double message = 0;  // seconds at the port of FSDP's, of what an action sends to another stage
};

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
  struct Lane {
    double free = 0;   // when the last collective on it ends
    double share = 0;  // of its time, at a port
  };

  bool has_fsdp() const { return axes_.shards.p > 1; }
  bool has_ddp() const { return axes_.data.p > 1; }
  bool share_a_port() const { return axes_.shards.port == axes_.data.port; }
  // A layer's time, on a compute lane beside both others.
  YOTTA_API double compute(const PartTime& part, double now);
  YOTTA_API void slow(const PartTime& part, const std::array<bool, exposed_kinds>& shares,
                      double seconds, double from, Lane& lane, double& now);
  YOTTA_API double start(Lane& lane, Lane& other, double now, double seconds, double work) const;
  YOTTA_API double start_first(const PlanUnit& unit, double now);
  YOTTA_API double wait(double now, double until);
  YOTTA_API double forward(const Units& units, double now);
  YOTTA_API double backward(const Units& units, PipelineOp op, double now);
  YOTTA_API double weights(const PlanUnit& unit, double now);
  YOTTA_API double finish_reduce(int chunk, double now);
  YOTTA_API double finish_reduces(double now);
  YOTTA_API void ready(int chunk, int64_t numbers, double now);

  const DataAxes& axes_;
  std::vector<Units> chunks_;
  Lane sharding_, summing_;  // FSDP's, DDP's
  struct Reduction {
    const PlanUnit* unit = nullptr;
    double end = 0;
    bool is_last = false;
  };
  std::vector<Reduction> reducing_;        // of each chunk
  int chunk_ = 0;                          // that runs
  bool is_last_ = false, syncing_ = true;  // DDP counts gradients as ready
  std::vector<double> bucket_ends_;        // numbers up to each bucket's end
  std::vector<int64_t> ready_, all_;       // numbers of each chunk
  size_t left_ = 0;                        // buckets that have left
  PartTime extra_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <numeric>

namespace yotta {

GradientWalk::GradientWalk(const DataAxes& axes, std::vector<Units> chunks)
    : axes_(axes),
      chunks_(std::move(chunks)),
      reducing_(chunks_.size()),
      ready_(chunks_.size(), 0),
      all_(chunks_.size(), 0) {
  std::vector<int64_t> parameters;  // in the order of backward
  for (size_t chunk = chunks_.size(); chunk-- > 0;)
    for (size_t i = chunks_[chunk].size(); i-- > 0;) {
      const std::vector<int64_t>& shards = chunks_[chunk][i]->shards;
      parameters.insert(parameters.end(), shards.rbegin(), shards.rend());
      all_[chunk] += std::accumulate(shards.begin(), shards.end(), int64_t{0});
    }
  if (!has_ddp()) return;
  double end = 0;
  for (const PlanBucket& each : plan_buckets(parameters, axes.bucket_bytes, axes.wide))
    bucket_ends_.push_back(end += static_cast<double>(each.numbers()));
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
    if (i + 1 < units.size())
      start(sharding_, summing_, now, units[i + 1]->gather, units[i + 1]->gather_work);
    now = compute(units[i]->layer->forward, now);
    here = sharding_.free;
  }
  return now;
}

double GradientWalk::backward(const Units& units, PipelineOp op, double now) {
  double here = op == PipelineOp::W ? now : start_first(*units.back(), now);
  for (size_t i = units.size(); i-- > 0;) {
    if (op != PipelineOp::W) {
      now = wait(now, here);
      if (i > 0) start(sharding_, summing_, now, units[i - 1]->gather, units[i - 1]->gather_work);
      now = compute(units[i]->layer->input, now);
      here = sharding_.free;
    }
    if (op == PipelineOp::I) continue;
    if (units.size() == 1) now = finish_reduce(chunk_, now);  // the unit's own
    const double before = sharding_.free;
    now = compute(units[i]->layer->weight, now);
    here += sharding_.free - before;
    now = weights(*units[i], now);
  }
  return now;
}

// W has ended: its gradients leave.
double GradientWalk::weights(const PlanUnit& unit, double now) {
  if (!has_fsdp()) {
    if (is_last_) ready(chunk_, unit.layer->parameters(), now);
    return now;
  }
  now = finish_reduce(chunk_, now);
  const double end = start(sharding_, summing_, now, unit.reduce, unit.reduce_work);
  reducing_[static_cast<size_t>(chunk_)] = {&unit, end, is_last_};
  return now;
}

double GradientWalk::finish_reduce(int chunk, double now) {
  const Reduction done = std::exchange(reducing_[static_cast<size_t>(chunk)], {});
  if (done.unit == nullptr) return now;
  now = wait(now, done.end) + done.unit->add;
  extra_.computed += done.unit->add;
  const std::vector<int64_t>& shards = done.unit->shards;
  if (done.is_last) ready(chunk, std::accumulate(shards.begin(), shards.end(), int64_t{0}), now);
  return now;
}
double GradientWalk::finish_reduces(double now) {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk)
    now = finish_reduce(static_cast<int>(chunk), now);
  return now;
}

// Some of a chunk's gradients are summed up on this rank: full buckets leave, in their order.
void GradientWalk::ready(int of_chunk, int64_t numbers, double now) {
  if (!has_ddp()) return;
  ready_[static_cast<size_t>(of_chunk)] += numbers;
  double done = 0;
  for (size_t chunk = chunks_.size(); chunk-- > 0;) {
    done += static_cast<double>(ready_[chunk]);
    if (ready_[chunk] < all_[chunk]) break;
  }
  for (; left_ < bucket_ends_.size() && bucket_ends_[left_] <= done; ++left_) {
    const double begin = left_ == 0 ? 0 : bucket_ends_[left_ - 1];
    const double bytes = (bucket_ends_[left_] - begin) * axes_.wide;
    start(summing_, sharding_, now, all_reduce_seconds(axes_.data, bytes),
          port_seconds(all_reduce_seconds, axes_.data, bytes));
  }
}

double GradientWalk::finish(double now) {
  now = finish_reduces(now);
  return wait(now, summing_.free);
}

double GradientWalk::wait(double now, double until) {
  extra_[Exposed::data] += std::max(0.0, until - now);
  return std::max(now, until);
}

// A collective on one of the lanes. While the other one has work, each gets half of a port.
double GradientWalk::start(Lane& lane, Lane& other, double now, double seconds, double work) const {
  if (seconds == 0) return now;
  const double begin = std::max(lane.free, now);
  lane.share = work / seconds;
  double shared = 0;
  if (share_a_port())
    shared = std::clamp(other.free - begin, 0.0, seconds) * lane.share * other.share;
  other.free += shared;
  return lane.free = begin + seconds + shared;
}

// An action's first gather, beside the message that the action before it has sent.
double GradientWalk::start_first(const PlanUnit& unit, double now) {
  const double end = start(sharding_, summing_, now, unit.gather, unit.gather_work);
  return sharding_.free = end + std::min(unit.gather_work, axes_.message);
}

double GradientWalk::compute(const PartTime& part, double now) {
  const double from = now, seconds = part.seconds();
  now += seconds;
  if (has_fsdp()) slow(part, axes_.beside_shards, seconds, from, sharding_, now);
  if (has_ddp()) slow(part, axes_.beside_data, seconds, from, summing_, now);
  return now;
}

void GradientWalk::slow(const PartTime& part, const std::array<bool, exposed_kinds>& shares,
                        double seconds, double from, Lane& lane, double& now) {
  if (lane.free <= from || seconds <= 0) return;
  const double share = lane.share * std::min(1.0, (lane.free - from) / seconds);
  for (size_t i = 0; i < exposed_kinds; ++i) {
    if (!shares[i]) continue;
    extra_.exposed[i] += share * part.slowed[i];
    now += share * part.slowed[i];
    lane.free += share * part.sent[i];
  }
}

}  // namespace yotta
#endif  // YOTTA_BODIES
