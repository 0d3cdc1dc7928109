#include "yotta/machine/latency_hiding.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"

using namespace yotta;
using yotta_test::near;

TEST_CASE("Little's law: latency times rate, and back") {
  CHECK(in_flight(2, 10) == 20);
  CHECK(rate_of(20, 2, 100) == 10);
  CHECK(rate_of(1000, 2, 100) == 100);
}

TEST_CASE("bytes that a chip must have in flight, and warps an SM") {
  const auto [a100, h100] = sm_sheets;
  CHECK(a100.latency() == near(330.7e-9).epsilon(1e-3));
  CHECK(h100.latency() == near(261.6e-9).epsilon(1e-3));
  CHECK(108 * bytes_in_flight(a100) == near(661e3).epsilon(1e-3));
  CHECK(132 * bytes_in_flight(h100) == near(876e3).epsilon(1e-3));
  CHECK(warps_needed(a100, 4) == near(47.8).epsilon(1e-3));
  CHECK(warps_needed(h100, 4) == near(51.9).epsilon(1e-3));
  CHECK(warps_needed(h100, 16) == near(warps_needed(h100, 4) / 4));
  CHECK(warps_needed(h100, 16) == near(warps_needed(h100, 4, 4)));
}

TEST_CASE("with the warps of the law the bandwidth is reached, with half of them half of it") {
  for (const SmSheet& sm : sm_sheets)
    for (const double bytes : {4.0, 16.0}) {
      const double full = chip_named(sm.chip).bandwidth, warps = warps_needed(sm, bytes);
      CHECK(bandwidth_reached(sm, warps, bytes) == near(full));
      CHECK(bandwidth_reached(sm, 2 * warps, bytes) == full);
      CHECK(bandwidth_reached(sm, warps / 2, bytes) == near(full / 2));
      CHECK(bandwidth_reached(sm, 1, bytes) < 0.1 * full);
    }
}
