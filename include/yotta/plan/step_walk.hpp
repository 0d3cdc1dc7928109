// A walk: what one rank computes, waits for and holds, added up call by call as its code goes.
//
//     walk.op(linear_cost(...))     computed += max(FLOPs / peak, bytes / bandwidth) + launch
//     walk.all_reduce(tp, bytes)    exposed += the ring's seconds: nothing is computed meanwhile
//     walk.hold(bytes), drop        live bytes, and the most that there have been
//
// The formulas are those of the ops (nn/*_cost) and of the collectives (comm/*_seconds). A walk
// goes through a layer once, in the order in which the layer's code does, and charges what that
// code charges. So it costs a microsecond, and gives the figures of a run of the layer on a
// described machine. block_walk.hpp has the walks of all layers.
//
// Messages of two kinds that meet at one port (machine/shared_ports.hpp) are gradient_walk.hpp's.
// Letters: p ranks of a group.
#pragma once

#include <array>
#include <utility>

#include "yotta/model/described_step.hpp"
#include "yotta/plan/plan_groups.hpp"

namespace yotta {

// For whom a rank waits: the axes of the mesh, ep apart; data: all that sum gradients.
enum class Exposed : uint8_t { tp, cp, ep, data };
inline constexpr int exposed_kinds = 4;
constexpr const char* name(Exposed kind) {
  constexpr const char* names[] = {"tp", "cp", "ep", "data"};
  return names[static_cast<int>(kind)];
}

// Seconds of a part of a step, by what the compute lane did. `sent`: for how long its messages had
// a port. If others use the port at the same time, each gets half, and the part takes longer by
// `slowed`, if that lasts for all of it.
struct PartTime {
  double computed = 0;
  std::array<double, exposed_kinds> exposed = {}, sent = {}, slowed = {};

  constexpr double& operator[](Exposed kind) { return exposed[static_cast<size_t>(kind)]; }
  constexpr double seconds() const {
    double sum = computed;
    for (const double each : exposed) sum += each;
    return sum;
  }
  constexpr PartTime& operator+=(const PartTime& more) {
    computed += more.computed;
    for (size_t i = 0; i < exposed.size(); ++i) {
      exposed[i] += more.exposed[i];
      sent[i] += more.sent[i], slowed[i] += more.slowed[i];
    }
    return *this;
  }
};
constexpr PartTime operator*(double times, PartTime part) {
  part.computed *= times;
  for (auto* seconds : {&part.exposed, &part.sent, &part.slowed})
    for (double& each : *seconds) each *= times;
  return part;
}

// ---- the walk ----

class StepWalk {
 public:
  StepWalk(const Chip& chip, const Efficiency& efficiency)
      : chip_(&chip), efficiency_(&efficiency) {}

  // Computes. `times`: so often.
  void op(const OpCost& cost, double times = 1);
  void compute(double seconds) { time_.computed += seconds; }
  // Waits for a collective.
  void all_reduce(Exposed kind, const PlanGroup& group, double bytes);
  void all_gather(Exposed kind, const PlanGroup& group, double bytes);
  void reduce_scatter(Exposed kind, const PlanGroup& group, double bytes);
  void all_to_all(Exposed kind, const PlanGroup& group, double bytes);
  // Computes for `here` seconds while a message of `work` bytes' seconds and `latency` travels.
  void beside(Exposed kind, double here, double latency, double work);
  void add(const PartTime& part) { time_ += part; }

  void hold(double bytes) { peak_ = std::max(peak_, live_ += bytes); }
  void drop(double bytes) { live_ -= bytes; }
  // Holds it for a moment.
  void touch(double bytes) { peak_ = std::max(peak_, live_ + bytes); }

  double seconds_of(const OpCost& cost) const;
  const PartTime& time() const { return time_; }
  double live() const { return live_; }
  double peak() const { return peak_; }
  // Ends a part: its time, and the walk goes on from zero.
  PartTime take_time() { return std::exchange(time_, {}); }
  void restart_memory() { live_ = peak_ = 0; }

 private:
  void wait(Exposed kind, CollectiveSeconds seconds, const PlanGroup& group, double bytes);

  const Chip* chip_;
  const Efficiency* efficiency_;
  PartTime time_;
  double live_ = 0, peak_ = 0;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/step_walk.ipp"
#endif
