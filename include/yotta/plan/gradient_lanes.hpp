// Gradient lanes: the collectives that a rank's data axes have under way, and who shares a port.
//
//     FSDP       ─ gather ─ gather ─ reduce ─ ...       one after the other
//     DDP             ═ bucket ═ ═ bucket ═             beside them
//     experts           ═ bucket ═                      DDP of a mixture's experts, with ep
//
// Each communicator has a lane. Collectives of two lanes that use one port at the same time get
// half of it each, and so do messages of a layer (machine/shared_ports.hpp): both take longer. A
// collective over nodes uses two ports, its card and, for a part of its time, the one into the
// node.
// Letters: none.
#pragma once

#include "yotta/plan/layer_figures.hpp"
#include "yotta/plan/plan_groups.hpp"

namespace yotta {

struct DataAxes {
  PlanGroup shards, data;    // FSDP's; DDP's
  int64_t bucket_bytes = 0;  // DDP's
  double wide = 4;           // bytes of a gradient's number
  std::array<bool, exposed_kinds> beside_shards = {}, beside_data = {};  // who shares their port
  std::array<bool, exposed_kinds> in_node = {};  // whose messages stay in the node
  bool is_alone = true;                          // no pipeline
  double message = 0;  // seconds at the port of FSDP's, of what an action sends to another stage
  PlanGroup experts = {};  // DDP's of a mixture's experts, if they are summed apart
  bool experts_apart = false;
  double interference = 0;  // machine/kernel_rates.hpp
  bool scatters = false;    // ZeRO-2: buckets are summed in every microbatch, to a shard a rank
  // To add such a sum to the microbatches' before: seconds of a number, and of a kernel.
  double add_number = 0, add_kernel = 0;
};

enum class GradientLane : uint8_t { shards, data, experts };

class GradientLanes {
 public:
  explicit GradientLanes(const DataAxes& axes);

  // A collective that can begin now, of so many seconds, `work` of them at its group's port and,
  // over nodes, `inside` at the port into the node. Returns its end.
  double start(GradientLane on, double now, double seconds, double work, double inside = 0);
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
    double share = 0;                             // of its time, at its group's port
    double inside = 0;                            // and at the port into the node
  };
  static double meeting(const Lane& one, const Lane& other);
  Lane& lane(GradientLane on) { return lanes_[static_cast<size_t>(on)]; }
  const Lane& lane(GradientLane on) const { return lanes_[static_cast<size_t>(on)]; }
  double interference_;
  double slow(Lane& lane, const PartTime& part, double from, PartTime& extra) const;

  std::array<Lane, 3> lanes_;
  std::array<bool, exposed_kinds> in_node_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/gradient_lanes.ipp"
#endif
