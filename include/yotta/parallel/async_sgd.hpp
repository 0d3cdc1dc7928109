// Asynchronous SGD: no worker waits for another, and what that costs.
//
// A server holds the weights. A worker fetches them, computes a gradient, and sends it; the server
// takes a step with whatever comes. By then others' steps have changed the weights:
//
//     server     │ 0 │ 1 │ 2 │ 3 │ 4 ...            number of the weights
//     worker 0   │ with 0        │ with 3 ...        comes when the server has 2: 2 steps old
//     worker 1   │ with 0   │ with 1 ...
//     worker 2   │ with 0     │ with 2 ...
//
// With k workers of one speed every gradient is k - 1 steps old. Down a valley of curvature c,
// w = w - rate c w(s steps ago) shrinks only while
//
//     rate c < 2 sin(pi / (2 (2 s + 1)))             s = 0: 2. s = 7: 0.21, a tenth
//
// so what is won in time is lost in steps. A slow worker's gradients are older still.
//
// This is played here in the order of a clock: each worker's gradient takes a time that is given.
// So a run is the same every time.
// Letters: k workers, s steps of staleness.
// Reference: Dean et al. (2012), DistBelief (Downpour SGD). Without a server: hogwild.hpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

// One worker's gradient, or one round of it: when it fetched the weights, and when its result came.
struct AsyncArrival {
  int worker;
  double begin, end;
  int64_t computed_with, applied_to;  // numbers of the server's weights

  int64_t staleness() const { return applied_to - computed_with; }
};

// Throws unless these are workers' times: at least one, and each above 0.
inline void expect_worker_seconds(std::span<const double> seconds, Where where) {
  for (const double each : seconds)
    if (!(each > 0) || std::isinf(each))
      fail(where, "a worker that needs {} seconds per gradient: give a finite number above 0",
           each);
  if (seconds.empty()) fail(where, "no workers; at least one computes gradients");
}

// The first `count` arrivals of workers that need so many seconds each, in order. Of two at once
// the lower worker's comes first.
inline std::vector<AsyncArrival> async_arrivals(std::span<const double> seconds, int64_t count,
                                                Where where = Where::current()) {
  expect_worker_seconds(seconds, where);
  std::vector<AsyncArrival> arrivals;
  std::vector<int64_t> done(seconds.size()), fetched(seconds.size());
  for (int64_t step = 0; step < count; ++step) {
    size_t next = 0;
    const auto end = [&](size_t i) { return static_cast<double>(done[i] + 1) * seconds[i]; };
    for (size_t i = 1; i < seconds.size(); ++i)
      if (end(i) < end(next)) next = i;
    arrivals.push_back(
        {static_cast<int>(next), end(next) - seconds[next], end(next), fetched[next], step});
    ++done[next];
    fetched[next] = step + 1;
  }
  return arrivals;
}

// The largest rate that shrinks w^2 c / 2 with gradients that are s steps old.
inline double largest_stale_rate(double curvature, int64_t s) {
  return 2 * std::sin(std::numbers::pi / static_cast<double>(2 * (2 * s + 1))) / curvature;
}

// Plays the arrivals: gradient(worker, number of its gradient, weights) -> gradient. Returns the
// weights after the last one.
template <class Gradient>
std::vector<double> play_async(const std::vector<AsyncArrival>& arrivals,
                               std::vector<double> weights, double rate, Gradient gradient) {
  std::vector<std::vector<double>> fetched;  // by worker
  std::vector<int64_t> done;
  for (const AsyncArrival& each : arrivals) {
    const auto worker = static_cast<size_t>(each.worker);
    if (worker >= fetched.size()) fetched.resize(worker + 1, weights), done.resize(worker + 1);
  }
  for (const AsyncArrival& each : arrivals) {
    const auto worker = static_cast<size_t>(each.worker);
    const std::vector<double> step = gradient(each.worker, done[worker]++, fetched[worker]);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= rate * step[i];
    fetched[worker] = weights;
  }
  return weights;
}

}  // namespace yotta
