// Gradient walk: what the data axes add to a step: DDP's buckets, ZeRO's, FSDP's units.
//
//     DDP      last microbatch   │ W7 │ W6 │ W5 │ ... │ W0 │          buckets leave as they fill
//              network                 │ 7 6 ═══ │ 5 4 ═══ │ ... ═══│   what is left shows
//     ZeRO-1   after backward    reduce_scatter bucket by bucket; AdamW on a p-th; all_gather
//     FSDP     each microbatch   unit i + 1 is gathered while unit i computes, forward; backward
//                                unit i - 1, and unit i + 1 is reduced
//
// The rules by which buckets are cut and units are gathered are those of parallel/ddp.hpp, zero.hpp
// and fsdp.hpp; here they are gone through with seconds in place of numbers. For equal units the
// results are those of fsdp_cost.hpp and hsdp_cost.hpp, as the tests say.
// Letters: p ranks of a group, u a unit.
#pragma once

#include <vector>

#include "yotta/parallel/pipeline_actions.hpp"
#include "yotta/plan/stage_walk.hpp"

namespace yotta {

// ---- DDP and ZeRO ----

struct PlanBucket {
  std::vector<int64_t> parameters = {};
  double ready = 0;  // when the last of its gradients is

  YOTTA_API int64_t numbers() const;
};
// Of parameters in the order of backward, with times; each of `bytes_each` bytes a number.
YOTTA_API std::vector<PlanBucket> plan_buckets(const std::vector<WeightReady>& ready,
                                               int64_t bucket_bytes, double bytes_each);
// The parts of a flat array of these parameters that rank 0 of p holds, parameter by parameter.
YOTTA_API std::vector<int64_t> first_shards(const std::vector<int64_t>& parameters, int p);
constexpr int64_t shard_numbers(int64_t numbers, int p) { return (numbers + p - 1) / p; }

// When the last all_reduce ends, one after the other on one lane.
YOTTA_API double ddp_end(const std::vector<PlanBucket>& buckets, const PlanGroup& group,
                         double bytes_each);

// ---- FSDP ----

// A layer as a unit: its times and its seconds on the network.
struct PlanUnit {
  const LayerFigures* layer = nullptr;
  int64_t numbers = 0;  // of its parameters
  double gather = 0, reduce = 0, add = 0;
};
YOTTA_API PlanUnit plan_unit(const LayerFigures& layer, const PlanGroup& shards,
                             const StepWalk& walk, double width, double wide, DType sum_dtype);

// What a rank's FSDP does in a step.
class FsdpWalk {
 public:
  // Units of each chunk, in the order of the stack.
  explicit FsdpWalk(std::vector<std::vector<PlanUnit>> chunks) : chunks_(std::move(chunks)) {}

  // From `begin` until it ends; the last backward of a chunk notes when its shards are ready.
  YOTTA_API double run(int chunk, PipelineOp op, double begin, bool is_last);
  // Waits for the reduction under way.
  YOTTA_API double finish(double now);

  double waited() const { return waited_; }   // for gathers and reductions
  double computed() const { return added_; }  // sums of gradients, beside the layers' own
  const std::vector<WeightReady>& ready() const { return ready_; }  // units' shards, by time

 private:
  double gather(const PlanUnit& unit, double now) {
    return lane_ = std::max(lane_, now) + unit.gather;
  }
  double wait(double now, double until) {
    waited_ += std::max(0.0, until - now);
    return std::max(now, until);
  }
  YOTTA_API double forward(const std::vector<PlanUnit>& units, double now);
  YOTTA_API double backward(const std::vector<PlanUnit>& units, PipelineOp op, double now);
  YOTTA_API double weights(const PlanUnit& unit, double now);

  std::vector<std::vector<PlanUnit>> chunks_;
  double lane_ = 0, waited_ = 0, added_ = 0;
  const PlanUnit* reducing_ = nullptr;
  double reduced_ = 0;    // when that ends
  bool is_last_ = false;  // of the chunk that runs
  std::vector<WeightReady> ready_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <numeric>

namespace yotta {

int64_t PlanBucket::numbers() const {
  return std::accumulate(parameters.begin(), parameters.end(), int64_t{0});
}

std::vector<PlanBucket> plan_buckets(const std::vector<WeightReady>& ready, int64_t bucket_bytes,
                                     double bytes_each) {
  std::vector<PlanBucket> buckets;
  double filled = 0, latest = 0;
  for (const WeightReady& each : ready) {
    const double bytes = static_cast<double>(each.numbers) * bytes_each;
    if (buckets.empty() || filled + bytes > static_cast<double>(bucket_bytes)) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().parameters.push_back(each.numbers);
    buckets.back().ready = latest = std::max(latest, each.seconds);  // in turn
    filled += bytes;
  }
  return buckets;
}

std::vector<int64_t> first_shards(const std::vector<int64_t>& parameters, int p) {
  int64_t left =
      shard_numbers(std::accumulate(parameters.begin(), parameters.end(), int64_t{0}), p);
  std::vector<int64_t> shards;
  for (const int64_t numbers : parameters) {
    if (left <= 0) break;
    shards.push_back(std::min(numbers, left));
    left -= numbers;
  }
  return shards;
}

double ddp_end(const std::vector<PlanBucket>& buckets, const PlanGroup& group, double bytes_each) {
  double lane = 0;
  for (const PlanBucket& each : buckets)
    lane = std::max(lane, each.ready) +
           all_reduce_seconds(group, static_cast<double>(each.numbers()) * bytes_each);
  return lane;
}

PlanUnit plan_unit(const LayerFigures& layer, const PlanGroup& shards, const StepWalk& walk,
                   double width, double wide, DType sum_dtype) {
  PlanUnit unit{&layer, layer.parameters(), 0, 0, 0};
  const auto padded = static_cast<double>(shard_numbers(unit.numbers, shards.p) * shards.p);
  unit.gather = all_gather_seconds(shards, padded * width);
  unit.reduce = reduce_scatter_seconds(shards, padded * wide);
  std::vector<int64_t> parameters;
  for (size_t i = layer.weights.size(); i-- > 0;) parameters.push_back(layer.weights[i].numbers);
  for (const int64_t each : first_shards(parameters, shards.p))
    unit.add += walk.seconds_of(add_cost(sum_dtype, each));
  return unit;
}

double FsdpWalk::run(int chunk, PipelineOp op, double begin, bool is_last) {
  const std::vector<PlanUnit>& units = chunks_[static_cast<size_t>(chunk)];
  is_last_ = is_last;
  return op == PipelineOp::F ? forward(units, begin) : backward(units, op, begin);
}

double FsdpWalk::forward(const std::vector<PlanUnit>& units, double now) {
  double here = gather(units[0], now);
  for (size_t i = 0; i < units.size(); ++i) {
    now = wait(now, here);
    if (i + 1 < units.size()) here = gather(units[i + 1], now);
    now += units[i].layer->forward.seconds();
  }
  return now;
}

double FsdpWalk::backward(const std::vector<PlanUnit>& units, PipelineOp op, double now) {
  double here = op == PipelineOp::W ? now : gather(units.back(), now);
  for (size_t i = units.size(); i-- > 0;) {
    if (op != PipelineOp::W) {
      now = wait(now, here);
      if (i > 0) here = gather(units[i - 1], now);
      now += units[i].layer->input.seconds();
    }
    if (op != PipelineOp::I) now = weights(units[i], now);
  }
  return now;
}

double FsdpWalk::weights(const PlanUnit& unit, double now) {
  now = finish(now + unit.layer->weight.seconds());
  reduced_ = lane_ = std::max(lane_, now) + unit.reduce;
  reducing_ = &unit;
  return now;
}

double FsdpWalk::finish(double now) {
  if (reducing_ == nullptr) return now;
  now = wait(now, reduced_) + reducing_->add;
  added_ += reducing_->add;
  if (is_last_) ready_.push_back({reducing_->numbers, now});
  reducing_ = nullptr;
  return now;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
