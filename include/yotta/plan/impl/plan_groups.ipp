// The bodies of plan/plan_groups.hpp.
#pragma once

#include "yotta/plan/plan_groups.hpp"

namespace yotta {

YOTTA_INLINE double inside_seconds(Operation operation, const PlanGroup& group, double bytes) {
  if (group.port() == 0) return 0;
  PlanGroup inside = group;
  inside.link = {0, 0, group.link.level};
  inside.gamma = 0;
  for (GroupLevel& level : inside.inner)
    level.link = {0, level.link.level == 0 ? level.link.beta : 0, level.link.level};
  return collective_seconds(operation, inside, bytes, choose_collective(operation, group, bytes));
}

namespace detail {
constexpr int apart(const MeshShape& shape, Axis axis, bool pp_outermost) {
  const int inside = stride(shape, axis);
  if (!pp_outermost || axis < Axis::pp) return inside;
  return axis == Axis::pp ? static_cast<int>(shape.ranks() / shape.pp) : inside / shape.pp;
}
}  // namespace detail

YOTTA_INLINE PlanGroups plan_groups(const Cluster& cluster, const MeshShape& shape,
                                    bool pp_outermost, bool one_ring) {
  using enum Axis;
  const auto along = [&](std::initializer_list<Axis> axes) {
    std::vector<ChipAxis> chips;
    for (const Axis axis : axes)
      chips.push_back({detail::apart(shape, axis, pp_outermost), shape[axis]});
    PlanGroup group = group_network(cluster, chips, shape.ranks());
    if (one_ring) group.inner.clear();
    return group;
  };
  const bool sharded = shape.dp_shard > 1;
  PlanGroups groups{along({tp}),           along({cp}), along({pp}), along({ep}),
                    along({cp, dp_shard}), {},          {},          {}};
  groups.data = sharded ? along({ep, dp_replicate}) : along({cp, ep, dp_replicate});
  groups.experts = sharded ? along({dp_replicate}) : along({cp, dp_replicate});
  groups.routed = along({cp, ep, dp_shard, dp_replicate});
  if (!sharded) groups.shards = {};
  return groups;
}

}  // namespace yotta
