#include "yotta/parallel/async_sgd.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// Down w^2 / 2 with k workers of one speed: every gradient is k - 1 steps old.
double descend(int k, double rate, int64_t steps) {
  const std::vector<double> seconds(static_cast<size_t>(k), 1);
  const auto gradient = [](int, int64_t, const std::vector<double>& w) { return w; };
  return std::abs(play_async(async_arrivals(seconds, steps), {1.0}, rate, gradient)[0]);
}
}  // namespace

TEST_CASE("arrivals come in the order of the clock, and know how old they are") {
  const std::vector<double> seconds = {1, 2.5};
  const std::vector<AsyncArrival> arrivals = async_arrivals(seconds, 7);
  std::vector<int> workers;
  std::vector<int64_t> ages;
  for (const AsyncArrival& each : arrivals) {
    workers.push_back(each.worker), ages.push_back(each.staleness());
    CHECK(std::abs(each.end - each.begin - seconds[static_cast<size_t>(each.worker)]) < 1e-12);
  }
  CHECK(workers == std::vector<int>{0, 0, 1, 0, 0, 0, 1});  // at 5 s: the lower worker first
  CHECK(ages == std::vector<int64_t>{0, 0, 2, 1, 0, 0, 3});
}

TEST_CASE("k workers of one speed: gradients are k - 1 steps old, but for the first") {
  for (const int k : {1, 2, 3, 4, 8}) {
    const std::vector<double> seconds(static_cast<size_t>(k), 2);
    const auto arrivals = async_arrivals(seconds, 5 * k);
    for (size_t i = 0; i < arrivals.size(); ++i)
      CHECK(arrivals[i].staleness() == std::min<int64_t>(static_cast<int64_t>(i), k - 1));
  }
}

TEST_CASE("the largest rate of stale gradients is that of the formula") {
  for (const int k : {1, 2, 3, 4, 8}) {
    const double largest = largest_stale_rate(1, k - 1);
    CHECK(descend(k, 0.97 * largest, 4000) < 1e-3);
    CHECK(!(descend(k, 1.03 * largest, 4000) < 1e3));
  }
  CHECK(std::abs(largest_stale_rate(1, 0) - 2) < 1e-12);
  CHECK(std::abs(largest_stale_rate(1, 7) - 0.2090569) < 1e-6);
  CHECK(std::abs(largest_stale_rate(4, 1) - 0.25) < 1e-12);
}

TEST_CASE("with one worker asynchronous SGD is SGD") {
  double w = 1;
  for (int i = 0; i < 10; ++i) w -= 0.3 * w;
  CHECK(std::abs(descend(1, 0.3, 10) - w) < 1e-15);
}

TEST_CASE("workers without a speed are refused") {
  const auto message = [](std::vector<double> seconds) {
    return message_of([&] { async_arrivals(seconds, 3); });
  };
  CHECK(contains(message({1, 0}), "needs 0 seconds"));
  CHECK(contains(message({std::nan("")}), "needs nan seconds"));
  CHECK(contains(message({}), "no workers"));
}
