// run_on: run_ranks on a machine that is only described. The code runs for real, on threads, and
// its values are real. Its time is that of the machine.
//
//     const Timed run = run_on(cluster_named("h100x8"), 8, [](Communicator& world) { ... });
//     run.seconds()           until the last rank has ended
//     run.seconds(3)          until rank 3 has
//     run.busy_share(3)       the share of run.seconds() in which rank 3 computed
//     run.trace               every op, message and wait (machine/trace.hpp)
//     run.reports[3]          its ledger, as from run_ranks
#pragma once

#include "yotta/comm/run_ranks.hpp"
#include "yotta/machine/shared_ports.hpp"

namespace yotta {

struct Timed {
  std::vector<RankReport> reports;  // by rank
  std::vector<double> ends;         // by rank, seconds
  Trace trace;                      // empty if ClockOptions::trace was false

  double seconds() const;
  double seconds(int rank) const { return ends[static_cast<size_t>(rank)]; }
  double busy_share(int rank) const { return yotta::busy_share(trace, rank); }
  double idle_share(int rank) const { return yotta::idle_share(trace, rank); }
};

// body(world) on n thread ranks. Rank r is on chip r of the cluster, or on ClockOptions::chips[r].
// Errors: as run_ranks; too few chips.
Timed run_on(const Cluster& cluster, int n, const RankBody& body,
             const ClockOptions& clock_options = {}, RunOptions options = {},
             Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/impl/run_on.ipp"
#endif
