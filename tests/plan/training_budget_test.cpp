#include "yotta/plan/training_budget.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <string>

using namespace yotta;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("known computers are the chips that their names say") {
  const std::map<std::string, double> peaks = {{"a TPU v5p", 459e12},  // of their datasheets
                                               {"a TPU v6e", 918e12},
                                               {"an H100", 989.4e12},
                                               {"a laptop", 0.768e12},
                                               {"a workstation", 12.288e12}};
  size_t found = 0;
  for (const Computer& computer : known_computers()) {
    CAPTURE(computer.name);
    if (!peaks.contains(computer.name)) continue;
    CHECK(computer.peak == doctest::Approx(peaks.at(computer.name)).scale(0));
    ++found;
  }
  CHECK(found == peaks.size());
}

TEST_CASE("rent and energy: euros of all chips") {
  const Fleet fleet{1000, 989.4e12, false, 0.4, 700};
  const RunNeeds needs = run_needs(1e23, fleet);
  const double hours = needs.seconds / 3600;
  const RunPrice price = price_of(needs, fleet, {0.2, 2, 1.25});
  CHECK(price.rent == doctest::Approx(2000 * hours).scale(0));
  CHECK(price.energy == doctest::Approx(1000 * 0.7 * hours * 1.25 * 0.2).scale(0));
  CHECK_THROWS_AS(price_of(needs, fleet, {no_number, 2, 1}), Error);
  CHECK_THROWS_AS(price_of(needs, fleet, {0.2, 2, no_number}), Error);
  CHECK_THROWS_AS(price_of(needs, fleet, {0.2, -1, 1}), Error);
}

TEST_CASE("Amdahl: 1 on one chip, never more than one over the serial share") {
  CHECK(amdahl(0.1, 1) == 1);
  CHECK(amdahl(0, 64) == 64);
  CHECK(amdahl(0.1, 1e12) == doctest::Approx(10).scale(0));
}

TEST_CASE("a pipeline's turns are Amdahl's law with a serial share of one microbatch") {
  for (const double p : {1.0, 2.0, 4.0, 16.0, 1000.0})
    for (const double m : {1.0, 4.0, 16.0})
      CHECK(pipeline_speedup(p, m) == doctest::Approx(m * p / (m + p - 1)).scale(0));
  CHECK(pipeline_speedup(8, 1) == 1);
}

TEST_CASE("strong scaling ends at the exchange; weak scaling at the critical batch") {
  const SharedStep step{10, 0.1};
  CHECK(strong_speedup(step, 1) == 1);
  CHECK(strong_speedup(step, 10) == doctest::Approx(10 / 1.1).scale(0));
  CHECK(strong_speedup(step, 1e9) == doctest::Approx(100).scale(0));
  CHECK(weak_speedup(step, 1, 4, 400) == doctest::Approx(1).scale(0));
  CHECK(weak_speedup({10, 0}, 100, 4, 400) ==
        doctest::Approx(50.5).scale(0));  // half of 101, the most
  CHECK(weak_speedup({10, 0}, 1e9, 4, 400) == doctest::Approx(101).scale(0));
}
