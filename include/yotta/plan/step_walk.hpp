// A walk: what one rank computes, waits for and holds, added up call by call as its code goes.
//
//     walk.op(linear_cost(...))     computed  += max(FLOPs / reached peak, bytes / bandwidth) + launch
//     walk.all_reduce(tp, bytes)    exposed   += the ring's seconds: nothing is computed meanwhile
//     walk.hold(bytes), drop        live bytes, and the most that there have been
//
// The formulas are those of the ops (nn/*_cost) and of the collectives (comm/*_seconds). A walk
// goes through a layer once, in the order in which the layer's code does, and charges what that
// code charges. So it costs a microsecond, and says what a run of the layer on a described machine
// says. layer_walks.hpp has the walks of all layers.
//
// What is not seen here: messages of two kinds that meet at one port (machine/shared_ports.hpp).
// Letters: p ranks of a group.
#pragma once

#include <array>

#include "yotta/comm/collectives.hpp"
#include "yotta/comm/collectives_recursive_cost.hpp"
#include "yotta/machine/cluster.hpp"
#include "yotta/model/described_step.hpp"

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

// ---- groups ----

// p ranks of which neighbours have this link.
struct PlanGroup {
  int p = 1;
  AlphaBeta link = {};
  int port = 0;  // port_of(link): 0 into the node, 1 out of it
};
// Whole collectives of `bytes` bytes in all, with the algorithm that is run for so many.
YOTTA_API double all_reduce_seconds(const PlanGroup& group, double bytes);
YOTTA_API double all_gather_seconds(const PlanGroup& group, double bytes);
YOTTA_API double reduce_scatter_seconds(const PlanGroup& group, double bytes);
YOTTA_API double all_to_all_seconds(const PlanGroup& group, double bytes);

// Of one of these seconds, those at a port: all but latency and sums.
using CollectiveSeconds = double (*)(const PlanGroup&, double bytes);
inline double port_seconds(CollectiveSeconds seconds, const PlanGroup& group, double bytes) {
  return seconds({group.p, {0, group.link.beta, 0}}, bytes);
}

// Bytes that a ring's reduce_scatter, and so its all_reduce, holds beside its data.
YOTTA_API double ring_scratch(const PlanGroup& group, double bytes);

// ---- the walk ----

class StepWalk {
 public:
  StepWalk(const Chip& chip, const Efficiency& efficiency)
      : chip_(&chip), efficiency_(&efficiency) {}

  // Computes. `times`: so often.
  YOTTA_API void op(const OpCost& cost, double times = 1);
  void compute(double seconds) { time_.computed += seconds; }
  // Waits for a collective.
  YOTTA_API void all_reduce(Exposed kind, const PlanGroup& group, double bytes);
  YOTTA_API void all_gather(Exposed kind, const PlanGroup& group, double bytes);
  YOTTA_API void reduce_scatter(Exposed kind, const PlanGroup& group, double bytes);
  YOTTA_API void all_to_all(Exposed kind, const PlanGroup& group, double bytes);
  // Computes for `here` seconds while a message of `work` bytes' seconds and `latency` travels.
  YOTTA_API void beside(Exposed kind, double here, double latency, double work);
  void add(const PartTime& part) { time_ += part; }

  void hold(double bytes) { peak_ = std::max(peak_, live_ += bytes); }
  void drop(double bytes) { live_ -= bytes; }
  // Holds it for a moment.
  void touch(double bytes) { peak_ = std::max(peak_, live_ + bytes); }

  YOTTA_API double seconds_of(const OpCost& cost) const;
  const PartTime& time() const { return time_; }
  double live() const { return live_; }
  double peak() const { return peak_; }
  // Ends a part: its time, and the walk goes on from zero.
  PartTime take_time() { return std::exchange(time_, {}); }
  void restart_memory() { live_ = peak_ = 0; }

 private:
  YOTTA_API void wait(Exposed kind, CollectiveSeconds seconds, const PlanGroup& group, double bytes);

  const Chip* chip_;
  const Efficiency* efficiency_;
  PartTime time_;
  double live_ = 0, peak_ = 0;
};

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
#include "yotta/machine/clock.hpp"

namespace yotta {

namespace detail {
inline constexpr double small_collective = 16 * 1024;  // comm/engine/algorithms.hpp: small_bytes

// Rounds of log2 p need a power of two; another p folds its odd ranks in, one round each way.
constexpr double rounds_of(int p) { return ceil_log2(p); }
}  // namespace detail

double all_reduce_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  if (bytes >= detail::small_collective) return all_reduce_ring_seconds(g.p, bytes, g.link);
  const bool folds = (g.p & (g.p - 1)) != 0;
  const double rounds = detail::rounds_of(g.p) + (folds ? 1 : 0);
  return rounds * (g.link.alpha + bytes * (g.link.beta + g.link.gamma));
}

double all_gather_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  return bytes < detail::small_collective ? all_gather_bruck_seconds(g.p, bytes, g.link)
                                          : all_gather_ring_seconds(g.p, bytes, g.link);
}

double reduce_scatter_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  if (bytes >= detail::small_collective || (g.p & (g.p - 1)) != 0)
    return reduce_scatter_ring_seconds(g.p, bytes, g.link);
  return reduce_scatter_recursive_halving_seconds(g.p, bytes, g.link);
}

double all_to_all_seconds(const PlanGroup& g, double bytes) {
  if (g.p == 1) return 0;
  if (bytes >= detail::small_collective || (g.p & (g.p - 1)) != 0)
    return all_to_all_pairwise_seconds(g.p, bytes, g.link);
  return all_to_all_bruck_seconds(g.p, bytes, g.link);
}

double ring_scratch(const PlanGroup& g, double bytes) { return g.p == 1 ? 0 : 2 * bytes / g.p; }

double StepWalk::seconds_of(const OpCost& cost) const {
  OpCost charged = cost;
  charged.flops /= reached(*efficiency_, cost.name);
  return op_seconds(*chip_, charged);
}

void StepWalk::op(const OpCost& cost, double times) { time_.computed += times * seconds_of(cost); }

void StepWalk::wait(Exposed kind, CollectiveSeconds seconds, const PlanGroup& group, double bytes) {
  const double port = port_seconds(seconds, group, bytes);
  beside(kind, 0, seconds(group, bytes) - port, port);
}

void StepWalk::beside(Exposed kind, double here, double latency, double work) {
  const auto i = static_cast<size_t>(kind);
  time_.computed += here;
  time_.exposed[i] += std::max(0.0, latency + work - here);
  time_.sent[i] += work;
  time_.slowed[i] += std::max(here, latency + 2 * work) - std::max(here, latency + work);
}

void StepWalk::all_reduce(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, all_reduce_seconds, group, bytes);
}
void StepWalk::all_gather(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, all_gather_seconds, group, bytes);
}
void StepWalk::reduce_scatter(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, reduce_scatter_seconds, group, bytes);
}
void StepWalk::all_to_all(Exposed kind, const PlanGroup& group, double bytes) {
  wait(kind, all_to_all_seconds, group, bytes);
}

}  // namespace yotta
#endif  // YOTTA_BODIES
