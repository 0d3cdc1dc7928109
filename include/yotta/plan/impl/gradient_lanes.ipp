// The bodies of plan/gradient_lanes.hpp.
#pragma once

#include "yotta/plan/gradient_lanes.hpp"

#include <algorithm>

namespace yotta {

YOTTA_INLINE GradientLanes::GradientLanes(const DataAxes& axes)
    : lanes_{{{axes.shards, axes.beside_shards},
              {axes.data, axes.beside_data},
              {axes.experts, axes.beside_data}}} {}

YOTTA_INLINE double GradientLanes::start(GradientLane on, double now, double seconds, double work) {
  if (seconds == 0) return now;
  Lane& own = lane(on);
  const double begin = std::max(own.free, now);
  own.share = work / seconds;
  double shared = 0;
  for (Lane& other : lanes_) {
    if (&other == &own || other.group.p == 1 || other.group.port != own.group.port) continue;
    const double both = std::clamp(other.free - begin, 0.0, seconds) * own.share * other.share;
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
  return now;
}

YOTTA_INLINE double GradientLanes::slow(Lane& lane, const PartTime& part, double from,
                                        PartTime& extra) const {
  const double seconds = part.seconds();
  if (lane.free <= from || seconds <= 0) return 0;
  const double share = lane.share * std::min(1.0, (lane.free - from) / seconds);
  double slower = 0;
  for (size_t i = 0; i < exposed_kinds; ++i) {
    if (!lane.beside[i]) continue;
    extra.exposed[i] += share * part.slowed[i];
    slower += share * part.slowed[i];
    lane.free += share * part.sent[i];
  }
  return slower;
}

}  // namespace yotta
