#include "yotta/parallel/latency_wall.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a number reaches k workers in log2 k latencies, rounded up, between cities and chips") {
  CHECK(meeting_seconds(1, 0.05) == 0);
  CHECK(meeting_seconds(2, 0.05) == 0.05);
  CHECK(meeting_seconds(5, 0.05) == doctest::Approx(0.15).scale(0));
  CHECK(meeting_seconds(8, 0.05) == doctest::Approx(0.15).scale(0));
  CHECK(inside_seconds(126, 8, 1e-6) == doctest::Approx(126 * 4 * 3e-6).scale(0));
}

TEST_CASE(
    "with a fixed batch the FLOPs fall with the square of a step's time, with a growing one "
    "with its fourth power") {
  LatencyWall wall;
  wall.workers = 2, wall.latency = 0.01, wall.inside = 1e-12;
  for (const double growth : {0.0, 0.5}) {
    wall.growth = growth;
    const LatencyBound near = largest_run(wall);
    LatencyWall far = wall;
    far.latency = 0.1;
    CHECK(near.flops / largest_run(far).flops == doctest::Approx(growth == 0 ? 1e2 : 1e4));
    CHECK(near.flops == doctest::Approx(0.3 * near.tokens * near.tokens));
    CHECK(near.steps * near.batch == doctest::Approx(near.tokens));
  }
}

TEST_CASE("the batch of a run is the one that the growth gives for its tokens") {
  LatencyWall wall;
  wall.growth = 0.5;
  const LatencyBound bound = largest_run(wall);
  CHECK(bound.batch == doctest::Approx(16e6 * std::sqrt(bound.tokens / 15.6e12)));
  wall.growth = 0;
  CHECK(largest_run(wall).batch == doctest::Approx(16e6));
}

TEST_CASE("by hand: 8 workers 50 ms apart for 90 days, and H = 100") {
  LatencyWall wall;
  const LatencyBound each = largest_run(wall);
  CHECK(each.step == doctest::Approx(0.1515));
  CHECK(each.steps == doctest::Approx(7776000 / 0.1515));
  CHECK(each.tokens == doctest::Approx(7776000 / 0.1515 * 16e6));
  wall.inner = 100;
  CHECK(largest_run(wall).step == doctest::Approx(0.003));
}

TEST_CASE("what is no run is refused") {
  const auto refused = [](LatencyWall wall) { return message_of([&] { largest_run(wall); }); };
  CHECK(contains(refused({.run = 0}), "all are above 0"));
  CHECK(contains(refused({.batch = std::numeric_limits<double>::quiet_NaN()}), "all are above 0"));
  CHECK(contains(refused({.workers = 0}), "at least 1, 1 and 0"));
  CHECK(contains(refused({.growth = 1}), "0 to below 1"));
}
