// The bodies of comm/run_on.hpp.
#pragma once

#include "yotta/comm/run_on.hpp"

namespace yotta {

YOTTA_INLINE double Timed::seconds() const { return *std::max_element(ends.begin(), ends.end()); }

YOTTA_INLINE Timed run_on(const Cluster& cluster, int n, const RankBody& body,
                          const ClockOptions& clock_options, RunOptions options, Where where) {
  if (n > cluster.size())
    fail(where, "{} has {} chips, too few for {} ranks", cluster.name, cluster.size(), n);
  if (const auto& chips = clock_options.chips; !chips.empty() && std::ssize(chips) != n)
    fail(where, "{} ranks, but ClockOptions::chips names {}", n, chips.size());
  std::vector<std::unique_ptr<VirtualClock>> clocks;
  for (int rank = 0; rank < n; ++rank)
    clocks.push_back(
        std::make_unique<VirtualClock>(cluster, rank, recording_options(clock_options), where));
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
  if (clock_options.trace && clock_options.observed && run_observer() != nullptr &&
      !detail::is_inside_rank())
    run_observer()->timed(run.trace, cluster.name);
  return run;
}

}  // namespace yotta
