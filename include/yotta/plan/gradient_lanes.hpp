// Gradient lanes: the collectives that a rank's data axes have under way, and who shares a port.
//
//     FSDP       ─ gather ─ gather ─ reduce ─ ...       one after the other
//     DDP             ═ bucket ═ ═ bucket ═             beside them
//     experts           ═ bucket ═                      DDP of a mixture's experts, with ep
//
// Each communicator has a lane. Collectives of two lanes that use one port at the same time get
// half of it each, and so do messages of a layer (machine/shared_ports.hpp): both take longer.
// Letters: none.
#pragma once

#include "yotta/plan/step_walk.hpp"

namespace yotta {

struct DataAxes {
  PlanGroup shards, data;    // FSDP's; DDP's
  int64_t bucket_bytes = 0;  // DDP's
  double wide = 4;           // bytes of a gradient's number
  std::array<bool, exposed_kinds> beside_shards = {}, beside_data = {};  // who shares their port
  bool is_alone = true;                                                  // no pipeline
  double message = 0;  // seconds at the port of FSDP's, of what an action sends to another stage
  PlanGroup experts = {};  // DDP's of a mixture's experts, if they are summed apart
  bool experts_apart = false;
};

enum class GradientLane : uint8_t { shards, data, experts };

class GradientLanes {
 public:
  YOTTA_API explicit GradientLanes(const DataAxes& axes);

  // A collective that can begin now, of so many seconds, `work` of them at a port. Returns its end.
  YOTTA_API double start(GradientLane on, double now, double seconds, double work);
  // When all that is under way has ended.
  double free(GradientLane on) const { return lane(on).free; }
  void delay(GradientLane on, double seconds) { lane(on).free += seconds; }
  // A layer's time from `now` on beside all lanes. Returns its end; `extra`: what came on top.
  YOTTA_API double compute(const PartTime& part, double now, PartTime& extra);

 private:
  struct Lane {
    PlanGroup group;
    std::array<bool, exposed_kinds> beside = {};  // whose messages share its port
    double free = 0;                              // when the last collective on it ends
    double share = 0;                             // of its time, at a port
  };
  Lane& lane(GradientLane on) { return lanes_[static_cast<size_t>(on)]; }
  const Lane& lane(GradientLane on) const { return lanes_[static_cast<size_t>(on)]; }
  YOTTA_API double slow(Lane& lane, const PartTime& part, double from, PartTime& extra) const;

  std::array<Lane, 3> lanes_;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include <algorithm>

namespace yotta {

GradientLanes::GradientLanes(const DataAxes& axes)
    : lanes_{{{axes.shards, axes.beside_shards},
              {axes.data, axes.beside_data},
              {axes.experts, axes.beside_data}}} {}

double GradientLanes::start(GradientLane on, double now, double seconds, double work) {
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

double GradientLanes::compute(const PartTime& part, double now, PartTime& extra) {
  const double from = now;
  now += part.seconds();
  for (Lane& each : lanes_)
    if (each.group.p > 1) now += slow(each, part, from, extra);
  return now;
}

double GradientLanes::slow(Lane& lane, const PartTime& part, double from, PartTime& extra) const {
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
#endif  // YOTTA_BODIES
