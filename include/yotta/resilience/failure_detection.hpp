// Failure detection: has a rank died, does it hang, or is it only slow?
//
// Each rank sends a heartbeat every second. A watcher that hears nothing for a while must decide:
//
//     heartbeats   │    │     │   │    │      │   │              ?
//                  └────┴─────┴───┴────┴──────┴───┴──────────────┴──▶ time
//                   gaps: 1.0 1.1 0.9 1.0 1.2 ...   patience
//
//     time-out      patience is a constant that somebody chose. Too short: false alarms, and each
//                   costs a restart. Too long: the others wait
//     phi-accrual   patience follows from the gaps seen so far. phi = -log10 of the probability
//                   that a gap is this long: at phi 8 one alarm in 10^8 heartbeats would be false,
//                   if gaps were normally distributed. Where they are not, it is more
//
// A heartbeat says that a process lives, not that it trains: a helper thread sends it. So a rank
// counts the collectives that it has entered, and the counts are compared when nobody goes on:
//
//     no heartbeat                             it has crashed
//     heartbeat, fewer collectives entered     it hangs, and the others wait for it
//     all have entered the same one            nobody is late: the network, or a rank in the call
//
// (diagnose_hang() of regroup.hpp.)
//
// A straggler misses nothing; it is only late. What finds it is known anyway: when each rank enters
// a collective. All leave a collective together, and compute until the next; the median of that
// time, rank by rank, shows which one is slow. Who came last does not: with jitter every rank is
// last now and then.
//
// References: Hayashibara et al. (2004), "The phi accrual failure detector"; PyTorch's flight
// recorder (the last collective of each rank); Jiang et al. (2024), MegaScale, section 5
// (stragglers).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "yotta/core/random.hpp"
#include "yotta/machine/clock.hpp"
#include "yotta/resilience/regroup.hpp"

namespace yotta {

// ---- crashes ----

// The way of a heartbeat that is sent every second.
struct HeartbeatPath {
  double jitter = 0.01;    // one standard deviation of the seconds that it is under way
  double pause_share = 0;  // of heartbeats that are held up for long: a checkpoint, a busy switch
  double pause = 5;        // seconds of that
};
// When each of `count` heartbeats arrives, in their order.
inline std::vector<double> heartbeat_arrivals(const HeartbeatPath& path, int64_t count,
                                              uint64_t seed) {
  const Random late(seed, "heartbeat"), held(seed, "pause");
  std::vector<double> arrivals;
  double last = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    double delay = path.jitter * std::max(0.0, 4 + late.normal(index));
    if (held.uniform(index) < path.pause_share) delay += path.pause;
    last = std::max(last, static_cast<double>(i) + delay);
    arrivals.push_back(last);
  }
  return arrivals;
}

// -log10 of the probability that a gap is longer than `waited`, for normally distributed gaps.
inline double phi(double waited, double mean, double deviation) {
  return -std::log10(std::erfc((waited - mean) / deviation / std::sqrt(2)) / 2);
}

// How long a watcher waits before it takes a rank for dead, after these gaps.
using Patience = std::function<double(std::span<const double> gaps)>;
inline Patience time_out(double seconds) {
  return [seconds](std::span<const double> /*gaps*/) { return seconds; };
}

// Until phi is `threshold`. Deviations below `least` are taken for `least`: few gaps say little.
// Without any gap it waits forever.
inline Patience phi_accrual(double threshold, double least = 0.01) {
  // The z of a normal distribution beyond which 10^-threshold of it lies: the same for all gaps.
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double z = (low + high) / 2;
    (phi(z, 0, 1) < threshold ? low : high) = z;
  }
  return [z = low, least](std::span<const double> gaps) {
    if (gaps.empty()) return std::numeric_limits<double>::infinity();
    const double n = static_cast<double>(gaps.size());
    const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / n;
    double squares = 0;
    for (const double gap : gaps) squares += (gap - mean) * (gap - mean);
    return mean + z * std::max(least, std::sqrt(squares / n));
  };
}

// What a watcher would have said of a rank that sent these heartbeats and then crashed.
struct Watched {
  int64_t false_alarms = 0;      // gaps longer than its patience, while the rank lived
  double seconds_to_notice = 0;  // from the last heartbeat on
};
// The watcher knows the last `window` gaps, and says nothing before it has as many.
inline Watched watch(std::span<const double> arrivals, const Patience& patience,
                     size_t window = 100) {
  Watched watched;
  std::vector<double> gaps;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    gaps.push_back(arrivals[i] - arrivals[i - 1]);
    if (gaps.size() <= window) continue;
    const std::span<const double> known = std::span<const double>(gaps).last(window + 1);
    if (gaps.back() > patience(known.first(window))) ++watched.false_alarms;
  }
  watched.seconds_to_notice =
      patience(std::span<const double>(gaps).last(std::min(window, gaps.size())));
  return watched;
}

// ---- stragglers ----

// arrivals[c][r]: when rank r entered collective c.
using Arrivals = std::vector<std::vector<double>>;
// From a run on the virtual clock: the waits of each rank's compute lane.
inline Arrivals arrivals_of(const Trace& trace) {
  Arrivals arrivals;
  for (size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    size_t collective = 0;
    for (const TraceEvent& event : trace.ranks[rank]) {
      if (event.kind != EventKind::wait || event.lane != compute_lane) continue;
      if (collective == arrivals.size()) arrivals.emplace_back(trace.ranks.size());
      arrivals[collective++][rank] = event.begin;
    }
  }
  return arrivals;
}

namespace detail {

inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace detail

// How many times as long as the median rank each rank computes between two collectives: its median
// over them. From three collectives on.
inline std::vector<double> slowness(const Arrivals& arrivals, Where where = Where::current()) {
  if (arrivals.size() < 3)
    fail(where, "{} collectives say nothing about stragglers: take 3 or more", arrivals.size());
  const size_t ranks = arrivals[0].size();
  std::vector<std::vector<double>> ratios(ranks);
  for (size_t c = 1; c < arrivals.size(); ++c) {
    const double left = *std::max_element(arrivals[c - 1].begin(), arrivals[c - 1].end());
    std::vector<double> computed;
    for (const double arrival : arrivals[c]) computed.push_back(arrival - left);
    const double usual = detail::median_of(computed);
    for (size_t rank = 0; rank < ranks; ++rank) ratios[rank].push_back(computed[rank] / usual);
  }
  std::vector<double> medians;
  for (const std::vector<double>& each : ratios) medians.push_back(detail::median_of(each));
  return medians;
}

// The ranks that take more than 1 + tolerance times as long.
inline std::vector<int> find_stragglers(const Arrivals& arrivals, double tolerance = 0.1) {
  const std::vector<double> slow = slowness(arrivals);
  std::vector<int> found;
  for (size_t rank = 0; rank < slow.size(); ++rank)
    if (slow[rank] > 1 + tolerance) found.push_back(static_cast<int>(rank));
  return found;
}

}  // namespace yotta
