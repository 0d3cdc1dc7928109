// The bodies of plan/plan_buckets.hpp.
#pragma once

#include "yotta/plan/plan_buckets.hpp"

#include <algorithm>
#include <numeric>

#include "yotta/machine/launch_overhead.hpp"

namespace yotta {

YOTTA_INLINE int64_t PlanBucket::numbers() const {
  return std::accumulate(parameters.begin(), parameters.end(), int64_t{0});
}

YOTTA_INLINE std::vector<PlanBucket> plan_buckets(const std::vector<int64_t>& parameters,
                                                  int64_t bucket_bytes, double bytes_each) {
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

YOTTA_INLINE std::vector<int64_t> first_shards(const std::vector<int64_t>& parameters, int p) {
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

YOTTA_INLINE std::vector<std::vector<int64_t>> summed_sets(const std::vector<WeightReady>& weights,
                                                           bool experts_apart) {
  std::vector<std::vector<int64_t>> sets(experts_apart ? 2 : 1);
  for (const WeightReady& each : weights)
    sets[experts_apart && each.expert ? 1 : 0].push_back(each.numbers);
  return sets;
}

YOTTA_INLINE double bucket_scratch(const PlanGroup& group, double bytes) {
  return group.p == 1 ? 2 * bytes : scratch_bytes(Operation::reduce_scatter, group, bytes);
}

YOTTA_INLINE PlanUnit plan_unit(const LayerFigures& layer, const PlanGroup& group,
                                const LayerSizes& z, const Kernels& kernels) {
  PlanUnit unit{&layer};
  unit.shards.assign(layer.weights.rbegin(), layer.weights.rend());
  const std::vector<int64_t> own = first_shards(summed_sets(unit.shards, false)[0], group.p);
  unit.shards.resize(own.size());
  for (size_t i = 0; i < own.size(); ++i) unit.shards[i].numbers = own[i];
  if (group.p == 1) return unit;
  const auto padded = static_cast<double>(shard_numbers(layer.parameters(), group.p) * group.p);
  unit.gather = collective_seconds(Operation::all_gather, group, padded * z.width);
  unit.gather_work = port_seconds(Operation::all_gather, group, padded * z.width);
  unit.gather_inside = inside_seconds(Operation::all_gather, group, padded * z.width);
  unit.reduce = collective_seconds(Operation::reduce_scatter, group, padded * z.wide);
  unit.reduce_work = port_seconds(Operation::reduce_scatter, group, padded * z.wide);
  unit.reduce_inside = inside_seconds(Operation::reduce_scatter, group, padded * z.wide);
  for (const WeightReady& each : unit.shards)
    unit.add += kernels.seconds(add_cost(z.sum_dtype, each.numbers));
  return unit;
}

YOTTA_INLINE PlanUnit plan_end(const LayerFigures& layer, const PlanGroup& group,
                               const LayerSizes& z, const Kernels& kernels) {
  LayerFigures table, others;
  for (const WeightReady& each : layer.weights)
    (each.table ? table : others).weights.push_back(each);
  PlanUnit both = plan_unit(table, group, z, kernels);
  const PlanUnit inner = plan_unit(others, group, z, kernels);
  both.layer = &layer;
  both.gather += inner.gather, both.reduce += inner.reduce, both.add += inner.add;
  both.gather_work += inner.gather_work, both.reduce_work += inner.reduce_work;
  both.gather_inside += inner.gather_inside, both.reduce_inside += inner.reduce_inside;
  both.shards.insert(both.shards.end(), inner.shards.begin(), inner.shards.end());
  return both;
}

YOTTA_INLINE PlanUnit plan_root(const LayerFigures& embedding, const LayerFigures& head,
                                const PlanGroup& group, const LayerSizes& z,
                                const Kernels& kernels) {
  LayerFigures both = head;
  both.weights.insert(both.weights.end(), embedding.weights.begin(), embedding.weights.end());
  PlanUnit root = plan_unit(both, group, z, kernels);
  root.layer = &embedding, root.stays = true;
  return root;
}

namespace detail {
inline constexpr int64_t whole_below = 100'000;
inline constexpr double kept_below = 1e9;

// A matrix that is moved through lists of a slice for each rank.
struct ListedMatrix {
  double gather = 0, sum = 0;  // seconds
  double list = 0;             // of the host, before a sum
};
inline ListedMatrix listed(int64_t numbers, const PlanGroup& group, const LayerSizes& z,
                           const Kernels& kernels) {
  const Host host;
  const double slices = group.p * host.framework, copies = 2 * slices + group.p * host.launch;
  const double bytes = static_cast<double>(shard_numbers(numbers, group.p) * group.p) * z.width;
  const double pass = bytes / (kernels.chip.bandwidth * kernels.efficiency.memory);
  ListedMatrix matrix;
  const double network = collective_seconds(Operation::all_gather, group, bytes);
  matrix.gather = pass + slices + std::max(copies, network + 2 * pass);
  matrix.sum = 4 * pass + collective_seconds(Operation::reduce_scatter, group, bytes);
  matrix.list = 2 * slices + copies;
  return matrix;
}
}  // namespace detail

YOTTA_INLINE void take_turns(PlanUnit& unit, const PlanGroup& group, const LayerSizes& z,
                             const Kernels& kernels) {
  const LayerFigures& layer = *unit.layer;
  unit.gather = unit.gather_work = unit.gather_inside = 0;
  unit.reduce = unit.reduce_work = unit.reduce_inside = 0;
  double used = 0;  // numbers, from where a matrix runs again until it goes backward
  double lists = 0;
  for (const WeightReady& each : layer.weights) {
    if (each.numbers < detail::whole_below) continue;
    const detail::ListedMatrix matrix = detail::listed(each.numbers, group, z, kernels);
    unit.forward_turn += matrix.gather;
    const double gathers = layer.again && used >= detail::kept_below ? 2 : 1;
    unit.backward_turn += gathers * matrix.gather + matrix.sum;
    lists += matrix.list;
    used += 2 * static_cast<double>(each.numbers);
  }
  const double kernels_of_backward =
      layer.input.seconds() + layer.weight.seconds() - (layer.again ? layer.forward.seconds() : 0);
  unit.backward_turn += std::max(0.0, lists - kernels_of_backward);
}

}  // namespace yotta
