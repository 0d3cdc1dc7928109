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

  YOTTA_API double seconds() const;
  double seconds(int rank) const { return ends[static_cast<size_t>(rank)]; }
  double busy_share(int rank) const { return yotta::busy_share(trace, rank); }
  double idle_share(int rank) const { return yotta::idle_share(trace, rank); }
};

// body(world) on n thread ranks. Rank r is on chip r of the cluster, or on ClockOptions::chips[r].
// Errors: as run_ranks; too few chips.
YOTTA_API Timed run_on(const Cluster& cluster, int n, const RankBody& body,
                       const ClockOptions& clock_options = {}, RunOptions options = {},
                       Where where = Where::current());

#if YOTTA_BODIES_OF(comm_timed)
double Timed::seconds() const { return *std::max_element(ends.begin(), ends.end()); }

Timed run_on(const Cluster& cluster, int n, const RankBody& body, const ClockOptions& clock_options,
             RunOptions options, Where where) {
  if (n > cluster.size())
    fail(where, "{} has {} chips, too few for {} ranks", cluster.name, cluster.size(), n);
  if (const auto& chips = clock_options.chips; !chips.empty() && std::ssize(chips) != n)
    fail(where, "{} ranks, but ClockOptions::chips names {}", n, chips.size());
  std::vector<std::unique_ptr<VirtualClock>> clocks;
  for (int rank = 0; rank < n; ++rank)
    clocks.push_back(
        std::make_unique<VirtualClock>(cluster, rank, recording_options(clock_options)));
  options.clock = [&](int rank) { return clocks[static_cast<size_t>(rank)].get(); };
  Timed run;
  run.reports = run_ranks(n, body, options, where);
  Trace recorded;
  for (const std::unique_ptr<VirtualClock>& clock : clocks) {
    run.ends.push_back(clock->seconds());
    recorded.ranks.push_back(clock->take_events());
    recorded.lanes.push_back(clock->lane_names());
  }
  for (const RankReport& report : run.reports) report.context->clock = nullptr;
  run.trace = finished_trace(std::move(recorded), cluster, clock_options);
  if (shares_ports(clock_options))
    for (int rank = 0; rank < n; ++rank)
      run.ends[static_cast<size_t>(rank)] = yotta::seconds(run.trace, rank);
  if (!clock_options.trace) run.trace = {};
  if (clock_options.trace && run_observer() != nullptr && !detail::is_inside_rank())
    run_observer()->timed(run.trace, cluster.name);
  return run;
}
#endif  // YOTTA_BODIES

}  // namespace yotta
