// Plan buckets: gradients and weights as they travel: DDP's and ZeRO's buckets, FSDP's units.
//
//     parameters in the order of backward     9  3  3  4  2  2  2  8      at most 12 in a bucket
//     buckets                                [9  3][3  4  2  2][2  8]
//     rank 0 of 4 holds of the second        3 of 11 numbers, and what is padded
//
// The rules are those of cut_into_buckets (parallel/ddp.hpp), FlatLayout (parallel/flat_shard.hpp)
// and FsdpUnit (parallel/fsdp.hpp). Letters: p ranks of a group.
#pragma once

#include <vector>

#include "yotta/plan/layer_walk.hpp"

namespace yotta {

struct PlanBucket {
  std::vector<int64_t> parameters = {};
  bool experts = false;  // summed by those that hold the same experts

  YOTTA_API int64_t numbers() const;
};
// Of parameters in the order of backward; each number of `bytes_each` bytes.
YOTTA_API std::vector<PlanBucket> plan_buckets(const std::vector<int64_t>& parameters,
                                               int64_t bucket_bytes, double bytes_each);
// The parts of a flat array of these parameters that rank 0 of p holds, parameter by parameter.
YOTTA_API std::vector<int64_t> first_shards(const std::vector<int64_t>& parameters, int p);
// Sets that are summed together: all, or those of no experts and those of experts.
YOTTA_API std::vector<std::vector<int64_t>> summed_sets(const std::vector<WeightReady>& weights,
                                                        bool experts_apart);
constexpr int64_t shard_numbers(int64_t numbers, int p) { return (numbers + p - 1) / p; }

// ---- FSDP's units ----

// A layer as a unit of p shards; without FSDP p is 1, and it costs nothing.
struct PlanUnit {
  const LayerFigures* layer = nullptr;
  double gather = 0, reduce = 0, add = 0;   // seconds: of weights, of gradients; to add a shard
  double gather_work = 0, reduce_work = 0;  // of these, at a port
  std::vector<WeightReady> shards = {};     // of rank 0, in the order of forward
  bool stays = false;                       // whole until it has gone backward: gathered once

  // Seconds to gather it in a microbatch, forward and backward.
  double gathers() const { return (stays ? 1 : 2) * gather; }
};
YOTTA_API PlanUnit plan_unit(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                             const StepWalk& walk);
// Of an end of a tied model with several stages: the table is a unit around the others.
YOTTA_API PlanUnit plan_end(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                            const StepWalk& walk);
// Of a tied model on one stage: the embedding with the head, which read one table.
YOTTA_API PlanUnit plan_root(const LayerFigures& embedding, const LayerFigures& head,
                             const PlanGroup& group, const LayerSizes& z, const StepWalk& walk);

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <numeric>

namespace yotta {

int64_t PlanBucket::numbers() const {
  return std::accumulate(parameters.begin(), parameters.end(), int64_t{0});
}

std::vector<PlanBucket> plan_buckets(const std::vector<int64_t>& parameters, int64_t bucket_bytes,
                                     double bytes_each) {
  std::vector<PlanBucket> buckets;
  double filled = 0;
  for (const int64_t each : parameters) {
    const double bytes = static_cast<double>(each) * bytes_each;
    if (buckets.empty() || filled + bytes > static_cast<double>(bucket_bytes)) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().parameters.push_back(each);
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

std::vector<std::vector<int64_t>> summed_sets(const std::vector<WeightReady>& weights,
                                              bool experts_apart) {
  std::vector<std::vector<int64_t>> sets(experts_apart ? 2 : 1);
  for (const WeightReady& each : weights)
    sets[experts_apart && each.expert ? 1 : 0].push_back(each.numbers);
  return sets;
}

PlanUnit plan_unit(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                   const StepWalk& walk) {
  PlanUnit unit{&layer};
  unit.shards.assign(layer.weights.rbegin(), layer.weights.rend());
  const std::vector<int64_t> own = first_shards(summed_sets(unit.shards, false)[0], group.p);
  unit.shards.resize(own.size());
  for (size_t i = 0; i < own.size(); ++i) unit.shards[i].numbers = own[i];
  if (group.p == 1) return unit;
  const auto padded = static_cast<double>(shard_numbers(layer.parameters(), group.p) * group.p);
  unit.gather = all_gather_seconds(group, padded * z.width);
  unit.gather_work = port_seconds(all_gather_seconds, group, padded * z.width);
  unit.reduce = reduce_scatter_seconds(group, padded * z.wide);
  unit.reduce_work = port_seconds(reduce_scatter_seconds, group, padded * z.wide);
  for (const WeightReady& each : unit.shards)
    unit.add += walk.seconds_of(add_cost(z.sum_dtype, each.numbers));
  return unit;
}

PlanUnit plan_end(const LayerFigures& layer, const PlanGroup& group, const LayerSizes& z,
                  const StepWalk& walk) {
  LayerFigures table, others;
  for (const WeightReady& each : layer.weights)
    (each.table ? table : others).weights.push_back(each);
  PlanUnit both = plan_unit(table, group, z, walk);
  const PlanUnit inner = plan_unit(others, group, z, walk);
  both.layer = &layer;
  both.gather += inner.gather, both.reduce += inner.reduce, both.add += inner.add;
  both.gather_work += inner.gather_work, both.reduce_work += inner.reduce_work;
  both.shards.insert(both.shards.end(), inner.shards.begin(), inner.shards.end());
  return both;
}

PlanUnit plan_root(const LayerFigures& embedding, const LayerFigures& head, const PlanGroup& group,
                   const LayerSizes& z, const StepWalk& walk) {
  LayerFigures both = head;
  both.weights.insert(both.weights.end(), embedding.weights.begin(), embedding.weights.end());
  PlanUnit root = plan_unit(both, group, z, walk);
  root.layer = &embedding, root.stays = true;
  return root;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
