// Failures a day, Young's and Daly's interval, and Llama 3's interruptions, against published
// figures.
#include "yotta/resilience/failure_arithmetic.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/message_of.hpp"
#include "yotta/resilience/regroup.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

namespace {
const std::vector<FailureSource> hourly = {{"node", 3600, false}};
}  // namespace

TEST_CASE("10 failures per 1000 node-days: one in 100 days, one a day, one in 14.4 minutes") {
  CHECK(seconds_between_failures(1) == 100 * seconds_a_day);
  CHECK(seconds_between_failures(100) == seconds_a_day);
  CHECK(seconds_between_failures(10000) == doctest::Approx(14.4 * 60).epsilon(1e-12));
}

TEST_CASE("a simulated run spends its time as expected, whatever the interval") {
  for (const double interval : {60.0, 600.0, 1800.0, 7200.0})
    for (const double down : {0.0, 300.0}) {
      const SavingRun run{interval, 30, down};
      const SpentTime spent = simulate_run(run, hourly, 3e7, 1);
      CHECK(spent.all() == doctest::Approx(3e7));
      CHECK(spent.goodput() == doctest::Approx(expected_goodput(run, 3600)).epsilon(0.03));
      CHECK(spent.stops[0] == doctest::Approx(3e7 / 3600).epsilon(0.03));
      CHECK(factors(spent).product() == doctest::Approx(spent.goodput()).epsilon(1e-12));
    }
}

TEST_CASE("no interval is better than Daly's; Young's is as good while snapshots are short") {
  for (const double save : {1.0, 10.0, 100.0, 600.0}) {
    const Intervals best = best_intervals(save, 3600);
    CHECK(best.young == doctest::Approx(std::sqrt(2 * save * 3600)));
    const auto goodput = [&](double interval) {
      return expected_goodput({interval, save, 0}, 3600);
    };
    double most = 0;
    for (double interval = 10; interval < 10000; interval *= 1.01)
      most = std::max(most, goodput(interval));
    CHECK(goodput(best.daly) > most * (1 - 1e-4));
    CHECK(goodput(best.young) > most * (1 - (save < 200 ? 2e-3 : 5e-2)));
    CHECK(goodput(best.young) <= goodput(best.daly));
  }
  CHECK(best_intervals(7200, 3600).daly == 3600);
  CHECK(best_intervals(9000, 3600).daly == 3600);
}

TEST_CASE("a snapshot before a planned stop: nothing is done again") {
  const std::vector<FailureSource> planned = {{"node", 3600, true}};
  const SpentTime spent = simulate_run({600, 30, 300}, planned, 1e6, 1);
  CHECK(spent.redone == 0);
  CHECK(spent.stops[0] > 200);
}

TEST_CASE("Llama 3: 466 interruptions in 54 days, 419 of them unexpected") {
  int all = 0, unexpected = 0;
  for (const Interruptions& each : llama3_interruptions) {
    all += each.count;
    if (!each.planned) unexpected += each.count;
  }
  CHECK(all == 466);
  CHECK(unexpected == 419);
  CHECK(1000 * unexpected / (llama3_nodes * llama3_days) == doctest::Approx(3.79).epsilon(0.002));
  CHECK(llama3_days * 24 / unexpected == doctest::Approx(3.09).epsilon(0.002));  // hours
}

TEST_CASE("Llama 3 as events: the counts by cause, and more than 90% of the time trains") {
  const std::vector<FailureSource> sources = llama3_sources();
  const double mean = llama3_days * seconds_a_day / 466;
  const SavingRun run{best_intervals(10, mean).daly, 10, 600};
  constexpr int runs = 200;
  std::vector<double> counts(sources.size());
  double sum = 0, goodput = 0;
  for (uint64_t seed = 0; seed < runs; ++seed) {
    const SpentTime spent = simulate_run(run, sources, llama3_days * seconds_a_day, seed);
    double stops = 0;
    for (size_t i = 0; i < sources.size(); ++i) {
      counts[i] += static_cast<double>(spent.stops[i]) / runs;
      stops += static_cast<double>(spent.stops[i]);
    }
    CHECK(std::abs(stops - 466) < 5 * std::sqrt(466));  // five standard deviations
    sum += stops / runs, goodput += spent.goodput() / runs;
  }
  CHECK(sum == doctest::Approx(466).epsilon(0.01));
  for (size_t i = 0; i < sources.size(); ++i) {
    const double expected = llama3_interruptions[i].count;
    CHECK(std::abs(counts[i] - expected) < 5 * std::sqrt(expected / runs));
  }
  CHECK(goodput > 0.9);
  CHECK(goodput == doctest::Approx(expected_goodput(run, mean)).epsilon(0.01));
}

TEST_CASE("a run that makes no sense is refused") {
  CHECK(contains(message_of([] { simulate_run({0, 1, 1}, hourly, 10, 0); }), "0 s of work"));
  CHECK(contains(message_of([] { simulate_run({1, 1, 1}, {}, 10, 0); }), "0 sources"));
  CHECK(contains(message_of([] { best_intervals(-1, 10); }), "above 0"));
}
