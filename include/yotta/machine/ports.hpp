// Ports: by which wire a message leaves its chip, by which it enters the other, and for how long.
//
//     chip 0 ──node──► chip 1       a chip has one port into its node and one out of it, its
//     chip 0 ──card──► chip 8       network card; each works both ways at once
//
//     a message of N bytes          [═══ N beta ═══]·alpha·     occupies a port for N beta; alpha
//                                                               is spent on the way
//
// A chip of a torus has two ports each way and axis. A message that hops along several axes leaves
// by its first hop's port and comes in by its last hop's.
#pragma once

#include <map>
#include <tuple>

#include "yotta/machine/contention.hpp"

namespace yotta {

// The ports of a recorded run, by number. chips: as ClockOptions::chips. The cluster outlives it.
class Ports {
 public:
  Ports(const Cluster& cluster, std::vector<int> chips)
      : cluster_(cluster), chips_(std::move(chips)), wires_(cluster) {}

  // Seconds for which a recorded message of `rank` occupies a port; the rest of its time is
  // latency.
  double work(int rank, const TraceEvent& message) const;
  // The port by which it leaves `rank`, if it is a send, or enters it. -1: it stays on its chip.
  int of(int rank, const TraceEvent& message);
  // Does it leave its node?
  bool leads_out(int rank, const TraceEvent& message) const;

 private:
  int chip(int rank) const;

  const Cluster& cluster_;
  std::vector<int> chips_;
  Wires wires_;
  std::map<std::tuple<int, int, bool>, int> known_;  // by both chips, and whether it sends
};

// Do two lanes of the recorded run use a port at the same time?
bool lanes_meet(const Trace& recorded, const Cluster& cluster, const std::vector<int>& chips);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/machine/impl/ports.ipp"
#endif
