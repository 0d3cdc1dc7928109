// The bodies of plan/step_walk.hpp.
#pragma once

#include "yotta/plan/step_walk.hpp"

#include "yotta/machine/clock.hpp"

namespace yotta {

YOTTA_INLINE double StepWalk::seconds_of(const OpCost& cost) const {
  OpCost charged = cost;
  charged.flops /= reached(*efficiency_, cost.name);
  return op_seconds(*chip_, charged);
}

YOTTA_INLINE void StepWalk::op(const OpCost& cost, double times) {
  time_.computed += times * seconds_of(cost);
}

YOTTA_INLINE void StepWalk::wait(Exposed kind, CollectiveSeconds seconds, const PlanGroup& group,
                                 double bytes) {
  const double port = port_seconds(seconds, group, bytes);
  beside(kind, 0, seconds(group, bytes) - port, port);
}

YOTTA_INLINE void StepWalk::beside(Exposed kind, double here, double latency, double work) {
  const auto i = static_cast<size_t>(kind);
  time_.computed += here;
  time_.exposed[i] += std::max(0.0, latency + work - here);
  time_.sent[i] += work;
  time_.slowed[i] += std::max(here, latency + 2 * work) - std::max(here, latency + work);
}

YOTTA_INLINE void StepWalk::all_reduce(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, all_reduce_seconds, group, bytes);
}
YOTTA_INLINE void StepWalk::all_gather(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, all_gather_seconds, group, bytes);
}
YOTTA_INLINE void StepWalk::reduce_scatter(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, reduce_scatter_seconds, group, bytes);
}
YOTTA_INLINE void StepWalk::all_to_all(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, all_to_all_seconds, group, bytes);
}

}  // namespace yotta
