// Contention: what happens when messages share a wire. An event simulator replays a recorded run.
//
//     alone      a ═══════►             every message has its wires to itself
//                b ═══════►
//     replay     a ── ── ── ── ►        on one wire, each gets half of it
//                b ── ── ── ── ►
//
// On the clock lanes share the ports of their chip (shared_ports.hpp), but of an uplink each chip
// has a fixed part, and nobody waits for a busy receiver. Here all wires are shared, and a message
// moves at one rate through all of its own: 3072 chips behind a thin uplink. The events of the
// clock's trace become a graph: each begins when its causes have ended, and operations take what
// they took. Messages become flows: after alpha a flow moves at the rate that its wires leave it.
// Rates are max-min fair: the tightest wire is shared equally among its flows, what they leave
// elsewhere is shared among the others, and so on. Whenever a flow begins or ends, the rates
// change.
//
//     chip ──port──► node ──uplink──► rack ──uplink──► pod ──uplink──┐       the wires of a message
//     chip ◄──port── node ◄─downlink─ rack ◄─downlink─ pod ◄─downlink┘
//
// A chip has two ports each way: one into its node (level 0), one out of it. A group of c chips
// goes up into the next level through one wire of c / beta bytes per second. With full bandwidth
// that is the most that its chips can send, so the wire is never tight; oversubscribed 1:7 it is.
// In a torus a message runs along one axis after the other, and each hop is a wire of its own.
//
// Cost: flows in flight times wires, at each begin and end of a message.
// Contract: the trace was recorded with ClockOptions::joins (a wait that took no time might take
// some here); all ranks are alive; links are not slowed. If nothing is shared, no time changes.
// Reference: Bertsekas & Gallager, "Data Networks", 6.5.2 (max-min fairness); flow-level simulation
// as in SimGrid (Casanova et al., 2014).
#pragma once

#include <map>
#include <tuple>

#include "yotta/machine/cluster.hpp"
#include "yotta/machine/trace.hpp"

namespace yotta {

// The run as it would be if messages shared wires. chips: as ClockOptions::chips. Errors: mirrored
// ranks.
Trace replay(const Trace& recorded, const Cluster& cluster, std::vector<int> chips = {},
             Where where = Where::current());

// The wires of a cluster by number, made as they are used.
class Wires {
 public:
  explicit Wires(const Cluster& cluster) : cluster_(cluster) {}

  double capacity(int wire) const { return capacities_[static_cast<size_t>(wire)]; }  // bytes/s
  int count() const { return static_cast<int>(capacities_.size()); }
  // The wires of a message from chip to chip; none to itself.
  std::vector<int> route(int from, int to);

 private:
  int wire(int kind, int place, int direction, double capacity);
  std::vector<int> torus_route(int from, int to);

  const Cluster& cluster_;
  std::map<std::tuple<int, int, int>, int> numbers_;  // by kind, place and direction
  std::vector<double> capacities_;
};

struct Flow {
  EventId event;
  double left = 0;  // bytes
  std::vector<int> wires;
  double rate = 0;  // bytes/s
};

// Sets the max-min fair rates of all flows.
void share_wires(std::vector<Flow>& flows, const Wires& wires);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/contention.ipp"
#endif
