// The bodies of plan/gradient_lanes.hpp.
#pragma once

#include "yotta/plan/gradient_lanes.hpp"

#include <algorithm>

namespace yotta {

YOTTA_INLINE GradientLanes::GradientLanes(const DataAxes& axes)
    : interference_(axes.interference),
      lanes_{{{axes.shards, axes.beside_shards},
              {axes.data, axes.beside_data},
              {axes.experts, axes.beside_data}}},
      in_node_(axes.in_node) {}

// Of the time in which both are under way, the part in which both use one port.
YOTTA_INLINE double GradientLanes::meeting(const Lane& one, const Lane& other) {
  if (one.group.port() == other.group.port())
    return one.share * other.share + one.inside * other.inside;
  return one.group.port() == 0 ? one.share * other.inside : one.inside * other.share;
}

YOTTA_INLINE double GradientLanes::start(GradientLane on, double now, double seconds, double work,
                                         double inside) {
  if (seconds == 0) return now;
  Lane& own = lane(on);
  const double begin = std::max(own.free, now);
  own.share = work / seconds, own.inside = inside / seconds;
  double shared = 0;
  for (Lane& other : lanes_) {
    if (&other == &own || other.group.p == 1) continue;
    const double both = std::clamp(other.free - begin, 0.0, seconds) * meeting(own, other);
    other.free += both;
    shared += both;
  }
  return own.free = begin + seconds + shared;
}

YOTTA_INLINE double GradientLanes::compute(const PartTime& part, double now, PartTime& extra) {
  const double from = now;
  now += part.seconds();
  for (Lane& each : lanes_)
    if (each.group.p > 1) now += slow(each, part, from, extra);
  double busy = 0;
  for (const Lane& each : lanes_)
    if (each.group.p > 1) busy = std::max(busy, std::min(each.free, now) - from);
  extra.computed += interference_ * busy, now += interference_ * busy;
  return now;
}

YOTTA_INLINE double GradientLanes::slow(Lane& lane, const PartTime& part, double from,
                                        PartTime& extra) const {
  const double seconds = part.seconds();
  if (lane.free <= from || seconds <= 0) return 0;
  const double busy = std::min(1.0, (lane.free - from) / seconds);
  double slower = 0;
  for (size_t i = 0; i < exposed_kinds; ++i) {
    const double share = busy * (lane.beside[i] ? lane.share : in_node_[i] ? lane.inside : 0);
    extra.exposed[i] += share * part.slowed[i];
    slower += share * part.slowed[i];
    lane.free += share * part.sent[i];
  }
  return slower;
}

}  // namespace yotta
