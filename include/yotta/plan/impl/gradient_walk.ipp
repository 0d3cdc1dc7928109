// The bodies of plan/gradient_walk.hpp.
#pragma once

#include "yotta/plan/gradient_walk.hpp"

#include <algorithm>
#include <numeric>

namespace yotta {

YOTTA_INLINE GradientWalk::GradientWalk(const DataAxes& axes, std::vector<Units> chunks)
    : axes_(axes), chunks_(std::move(chunks)), lanes_(axes), reducing_(chunks_.size()) {
  const auto add = [&](const std::vector<size_t>& of) {
    add_buckets(axes.data, GradientLane::data, of);
    if (axes.experts_apart) add_buckets(axes.experts, GradientLane::experts, of);
  };
  std::vector<size_t> all(chunks_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  if (has_ddp()) add(all);
  if (axes.scatters)
    for (const size_t chunk : all) add({chunk});
}

YOTTA_INLINE void GradientWalk::add_buckets(const PlanGroup& group, GradientLane lane,
                                            std::vector<size_t> chunks) {
  Buckets buckets{group, lane, std::move(chunks)};
  buckets.all = buckets.ready = std::vector<double>(chunks_.size(), 0);
  std::vector<int64_t> parameters;  // in the order of backward
  for (size_t at = buckets.chunks.size(); at-- > 0;) {
    const size_t chunk = buckets.chunks[at];
    for (size_t i = chunks_[chunk].size(); i-- > 0;) {
      const std::vector<WeightReady>& shards = chunks_[chunk][i]->shards;
      for (size_t shard = shards.size(); shard-- > 0;) {
        if (!belongs(shards[shard], buckets)) continue;
        parameters.push_back(shards[shard].numbers);
        buckets.all[chunk] += static_cast<double>(shards[shard].numbers);
      }
    }
  }
  double end = 0;
  for (const PlanBucket& each : plan_buckets(parameters, axes_.bucket_bytes, axes_.wide)) {
    buckets.ends.push_back(end += static_cast<double>(each.numbers()));
    buckets.sums.push_back(sum_of(buckets, static_cast<double>(each.numbers())));
  }
  buckets_.push_back(std::move(buckets));
}
// Layers are alike, and so are many of their buckets.
YOTTA_INLINE GradientWalk::BucketSum GradientWalk::sum_of(const Buckets& buckets,
                                                          double numbers) const {
  for (const BucketSum& known : buckets.sums)
    if (known.numbers == numbers) return known;
  const Operation sum = axes_.scatters ? Operation::reduce_scatter : Operation::all_reduce;
  const double bytes = numbers * axes_.wide;
  return {numbers, collective_seconds(sum, buckets.group, bytes),
          port_seconds(sum, buckets.group, bytes), inside_seconds(sum, buckets.group, bytes)};
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
  if (asks) begin = flush(begin);
  return op == PipelineOp::F ? forward(units, begin) : backward(units, op, begin);
}

YOTTA_INLINE double GradientWalk::forward(const Units& units, double now) {
  double here = start_first(*units[0], now);
  for (size_t i = 0; i < units.size(); ++i) {
    now = wait(now, here);
    if (i + 1 < units.size()) gather(*units[i + 1], now);
    now = wait(now, now + units[i]->forward_turn);
    now = lanes_.compute(units[i]->layer->forward, now, extra_);
    here = gathered();
  }
  return now;
}

YOTTA_INLINE double GradientWalk::backward(const Units& units, PipelineOp op, double now) {
  double here = op == PipelineOp::W || units.back()->stays ? now : start_first(*units.back(), now);
  for (size_t i = units.size(); i-- > 0;) {
    if (op != PipelineOp::W) {
      now = wait(now, here);
      if (i > 0 && !units[i - 1]->stays) gather(*units[i - 1], now);
      now = wait(now, now + units[i]->backward_turn);
      now = input(*units[i], now);
      here = gathered();
    }
    if (op == PipelineOp::I) continue;
    if (units.size() == 1) now = finish_reduce(chunk_, now);  // the unit's own
    const double before = gathered();
    now = axes_.scatters ? in_pieces(*units[i], units[i]->layer->weight, now)
                         : lanes_.compute(units[i]->layer->weight, now, extra_);
    here += gathered() - before;
    now = weights(*units[i], now);
  }
  return now;
}

// W has ended: its gradients leave.
YOTTA_INLINE double GradientWalk::weights(const PlanUnit& unit, double now) {
  if (!has_fsdp()) return is_last_ && has_ddp() ? ready(chunk_, unit.shards, now) : now;
  now = finish_reduce(chunk_, now);
  const double end =
      lanes_.start(GradientLane::shards, now, unit.reduce, unit.reduce_work, unit.reduce_inside);
  reducing_[static_cast<size_t>(chunk_)] = {&unit, end, is_last_};
  return now;
}

// A layer's I; if it is checkpointed, W is the end of it.
YOTTA_INLINE double GradientWalk::input(const PlanUnit& unit, double now) {
  const LayerFigures& layer = *unit.layer;
  if (!axes_.scatters || !layer.again) return lanes_.compute(layer.input, now, extra_);
  PartTime without = layer.input;
  without += -1.0 * layer.again_weight;
  return in_pieces(unit, layer.again_weight, lanes_.compute(without, now, extra_));
}
// ZeRO-2: W parameter by parameter. A bucket leaves as soon as it is full.
YOTTA_INLINE double GradientWalk::in_pieces(const PlanUnit& unit, const PartTime& part,
                                            double now) {
  if (part.seconds() == 0) return now;
  const auto all = static_cast<double>(numbers_in(unit.shards));
  for (size_t i = unit.shards.size(); i-- > 0;) {
    const WeightReady& each = unit.shards[i];
    now = lanes_.compute(static_cast<double>(each.numbers) / all * part, now, extra_);
    now = ready(chunk_, std::span(&each, 1), now);
  }
  return now;
}

YOTTA_INLINE double GradientWalk::finish_reduce(int chunk, double now) {
  const Reduction done = std::exchange(reducing_[static_cast<size_t>(chunk)], {});
  if (done.unit == nullptr) return now;
  now = wait(now, done.end) + done.unit->add;
  extra_.computed += done.unit->add;
  return done.is_last ? ready(chunk, done.unit->shards, now) : now;
}
YOTTA_INLINE double GradientWalk::finish_reduces(double now) {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk)
    now = finish_reduce(static_cast<int>(chunk), now);
  return now;
}

// Some of a chunk's gradients are summed up on this rank: full buckets leave, in their order.
YOTTA_INLINE double GradientWalk::ready(int chunk, std::span<const WeightReady> weights,
                                        double now) {
  const auto at = static_cast<size_t>(chunk);
  for (Buckets& buckets : buckets_) {
    for (const WeightReady& each : weights)
      if (buckets.all[at] > 0 && belongs(each, buckets))
        buckets.ready[at] += static_cast<double>(each.numbers);
    now = leave(buckets, now);
  }
  return now;
}
YOTTA_INLINE double GradientWalk::leave(Buckets& b, double now) {
  double done = 0;
  for (size_t at = b.chunks.size(); at-- > 0;) {
    const size_t chunk = b.chunks[at];
    done += b.ready[chunk];
    if (b.ready[chunk] < b.all[chunk]) break;
  }
  while (b.left < b.ends.size() && b.ends[b.left] <= done) now = start(b, now);
  return now;
}
// ZeRO-2 has one bucket under way: the one before ends first.
YOTTA_INLINE double GradientWalk::start(Buckets& b, double now) {
  if (axes_.scatters) now = settle(b, now);
  const BucketSum& sum = b.sums[b.left++];
  lanes_.start(b.lane, now, sum.seconds, sum.work, sum.inside);
  b.arrives = axes_.scatters;
  return now;
}
YOTTA_INLINE double GradientWalk::settle(Buckets& b, double now) {
  if (!std::exchange(b.arrives, false)) return now;
  const double adds = axes_.add_kernel + axes_.add_number * b.numbers(b.left - 1) / b.group.p;
  extra_.computed += adds;
  return wait(now, lanes_.free(b.lane)) + adds;
}
// ZeRO-2: what a microbatch has left ends before the next one goes back.
YOTTA_INLINE double GradientWalk::flush(double now) {
  if (!axes_.scatters) return now;
  for (Buckets& each : buckets_) {
    now = settle(each, now);
    const bool all_left = each.left == each.ends.size();
    if (all_left) each.left = 0, std::fill(each.ready.begin(), each.ready.end(), 0);
  }
  return now;
}

YOTTA_INLINE double GradientWalk::finish(double now) {
  now = flush(finish_reduces(now));
  return wait(now, std::max(lanes_.free(GradientLane::data), lanes_.free(GradientLane::experts)));
}

YOTTA_INLINE double GradientWalk::wait(double now, double until) {
  extra_[Exposed::data] += std::max(0.0, until - now);
  return std::max(now, until);
}

// An action's first gather, beside the message that the action before it has sent.
YOTTA_INLINE double GradientWalk::start_first(const PlanUnit& unit, double now) {
  const double end =
      lanes_.start(GradientLane::shards, now, unit.gather, unit.gather_work, unit.gather_inside);
  const double late = std::min(unit.gather_work, axes_.message);
  lanes_.delay(GradientLane::shards, end + late - gathered());
  return end + late;
}

}  // namespace yotta
