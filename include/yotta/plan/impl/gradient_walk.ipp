// The bodies of plan/gradient_walk.hpp.
#pragma once

#include "yotta/plan/gradient_walk.hpp"

namespace yotta {

YOTTA_INLINE GradientWalk::GradientWalk(const DataAxes& axes, std::vector<Units> chunks)
    : axes_(axes), chunks_(std::move(chunks)), lanes_(axes), reducing_(chunks_.size()) {
  if (!has_ddp()) return;
  add_buckets(axes.data, GradientLane::data);
  if (axes.experts_apart) add_buckets(axes.experts, GradientLane::experts);
}

YOTTA_INLINE void GradientWalk::add_buckets(const PlanGroup& group, GradientLane lane) {
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

YOTTA_INLINE double GradientWalk::run(int chunk, PipelineOp op, double begin, bool is_last) {
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

YOTTA_INLINE double GradientWalk::forward(const Units& units, double now) {
  double here = start_first(*units[0], now);
  for (size_t i = 0; i < units.size(); ++i) {
    now = wait(now, here);
    if (i + 1 < units.size()) gather(*units[i + 1], now);
    now = lanes_.compute(units[i]->layer->forward, now, extra_);
    here = gathered();
  }
  return now;
}

YOTTA_INLINE double GradientWalk::backward(const Units& units, PipelineOp op, double now) {
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
YOTTA_INLINE double GradientWalk::weights(const PlanUnit& unit, double now) {
  if (!has_fsdp()) {
    if (is_last_) ready(chunk_, unit.shards, now);
    return now;
  }
  now = finish_reduce(chunk_, now);
  const double end = lanes_.start(GradientLane::shards, now, unit.reduce, unit.reduce_work);
  reducing_[static_cast<size_t>(chunk_)] = {&unit, end, is_last_};
  return now;
}

YOTTA_INLINE double GradientWalk::finish_reduce(int chunk, double now) {
  const Reduction done = std::exchange(reducing_[static_cast<size_t>(chunk)], {});
  if (done.unit == nullptr) return now;
  now = wait(now, done.end) + done.unit->add;
  extra_.computed += done.unit->add;
  if (done.is_last) ready(chunk, done.unit->shards, now);
  return now;
}
YOTTA_INLINE double GradientWalk::finish_reduces(double now) {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk)
    now = finish_reduce(static_cast<int>(chunk), now);
  return now;
}

// Some of a chunk's gradients are summed up on this rank: full buckets leave, in their order.
YOTTA_INLINE void GradientWalk::ready(int chunk, const std::vector<WeightReady>& weights,
                                      double now) {
  for (Buckets& buckets : buckets_) {
    for (const WeightReady& each : weights)
      if (belongs(each, buckets))
        buckets.ready[static_cast<size_t>(chunk)] += static_cast<double>(each.numbers);
    leave(buckets, now);
  }
}
YOTTA_INLINE void GradientWalk::leave(Buckets& b, double now) {
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

YOTTA_INLINE double GradientWalk::finish(double now) {
  now = finish_reduces(now);
  return wait(now, std::max(lanes_.free(GradientLane::data), lanes_.free(GradientLane::experts)));
}

YOTTA_INLINE double GradientWalk::wait(double now, double until) {
  extra_[Exposed::data] += std::max(0.0, until - now);
  return std::max(now, until);
}

// An action's first gather, beside the message that the action before it has sent.
YOTTA_INLINE double GradientWalk::start_first(const PlanUnit& unit, double now) {
  const double end = lanes_.start(GradientLane::shards, now, unit.gather, unit.gather_work);
  const double late = std::min(unit.gather_work, axes_.message);
  lanes_.delay(GradientLane::shards, end + late - gathered());
  return end + late;
}

}  // namespace yotta
