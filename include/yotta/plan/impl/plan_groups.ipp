// The bodies of plan/plan_groups.hpp.
#pragma once

#include "yotta/plan/plan_groups.hpp"

#include <algorithm>

#include "yotta/comm/collectives_recursive.hpp"

namespace yotta {

namespace detail {
inline constexpr double small_collective = 16 * 1024;  // comm/engine/algorithms.hpp: small_bytes

// Rounds of log2 p need a power of two; another p folds its odd ranks in, one round each way.
constexpr double rounds_of(int p) { return ceil_log2(p); }
}  // namespace detail

YOTTA_INLINE double all_reduce_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  if (bytes >= detail::small_collective) return all_reduce_ring_seconds(g.p, bytes, g.link);
  const bool folds = (g.p & (g.p - 1)) != 0;
  const double rounds = detail::rounds_of(g.p) + (folds ? 1 : 0);
  return rounds * (g.link.alpha + bytes * (g.link.beta + g.link.gamma));
}

YOTTA_INLINE double all_gather_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  return bytes < detail::small_collective ? all_gather_bruck_seconds(g.p, bytes, g.link)
                                          : all_gather_ring_seconds(g.p, bytes, g.link);
}

YOTTA_INLINE double reduce_scatter_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  if (bytes >= detail::small_collective || (g.p & (g.p - 1)) != 0)
    return reduce_scatter_ring_seconds(g.p, bytes, g.link);
  return reduce_scatter_recursive_halving_seconds(g.p, bytes, g.link);
}

YOTTA_INLINE double all_to_all_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  if (bytes >= detail::small_collective || (g.p & (g.p - 1)) != 0)
    return all_to_all_pairwise_seconds(g.p, bytes, g.link);
  return all_to_all_bruck_seconds(g.p, bytes, g.link);
}

YOTTA_INLINE double ring_scratch(const PlanGroup& g, double bytes) {
  return g.p == 1 ? 0 : 2 * bytes / g.p;
}

namespace detail {

// The level of the farthest link along an axis, of all groups. Groups fill blocks of chips.
inline size_t level_along(const Cluster& cluster, const MeshShape& shape, Axis axis) {
  const int64_t block = int64_t{1} * stride(shape, axis) * shape[axis];
  size_t level = 0;
  while (level + 1 < cluster.levels.size() && cluster.levels[level].chips % block != 0 &&
         cluster.levels[level].chips < shape.ranks())
    ++level;
  return level;
}

// A group along some axes, with the farthest link that any of them has.
inline PlanGroup group_along(const Cluster& cluster, const MeshShape& shape,
                             std::initializer_list<Axis> axes) {
  PlanGroup group{1, {0, 0, cluster.gamma}, -1};
  size_t farthest = 0;
  for (const Axis axis : axes) {
    group.p *= shape[axis];
    if (shape[axis] > 1) farthest = std::max(farthest, level_along(cluster, shape, axis));
  }
  if (group.p == 1) return group;
  const Level& level = cluster.levels[farthest];
  group.link.alpha = level.alpha, group.link.beta = level.beta;
  group.port = farthest > 0 ? 1 : 0;
  return group;
}

}  // namespace detail

YOTTA_INLINE PlanGroups plan_groups(const Cluster& cluster, const MeshShape& shape) {
  using enum Axis;
  const auto along = [&](std::initializer_list<Axis> axes) {
    return detail::group_along(cluster, shape, axes);
  };
  const bool sharded = shape.dp_shard > 1;
  PlanGroups groups{along({tp}),           along({cp}), along({pp}), along({ep}),
                    along({cp, dp_shard}), {},          {},          {}};
  groups.data = sharded ? along({ep, dp_replicate}) : along({cp, ep, dp_replicate});
  groups.experts = sharded ? along({dp_replicate}) : along({cp, dp_replicate});
  groups.routed = along({cp, ep, dp_shard, dp_replicate});
  if (!sharded) groups.shards.p = 1;
  return groups;
}

}  // namespace yotta
