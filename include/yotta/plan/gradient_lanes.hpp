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
  explicit GradientLanes(const DataAxes& axes);

  // A collective that can begin now, of so many seconds, `work` of them at a port. Returns its end.
  double start(GradientLane on, double now, double seconds, double work);
  // When all that is under way has ended.
  double free(GradientLane on) const { return lane(on).free; }
  void delay(GradientLane on, double seconds) { lane(on).free += seconds; }
  // A layer's time from `now` on beside all lanes. Returns its end; `extra`: what came on top.
  double compute(const PartTime& part, double now, PartTime& extra);

 private:
  struct Lane {
    PlanGroup group;
    std::array<bool, exposed_kinds> beside = {};  // whose messages share its port
    double free = 0;                              // when the last collective on it ends
    double share = 0;                             // of its time, at a port
  };
  Lane& lane(GradientLane on) { return lanes_[static_cast<size_t>(on)]; }
  const Lane& lane(GradientLane on) const { return lanes_[static_cast<size_t>(on)]; }
  double slow(Lane& lane, const PartTime& part, double from, PartTime& extra) const;

  std::array<Lane, 3> lanes_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/gradient_lanes.ipp"
#endif
