#include "yotta/machine/latency_hiding.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/near.hpp"

using namespace yotta;
using yotta_test::near;

TEST_CASE("Little's law: latency times rate, and back") {
  CHECK(in_flight(2, 10) == 20);
  CHECK(rate_of(20, 2, 100) == 10);
  CHECK(rate_of(1000, 2, 100) == 100);
}

TEST_CASE("bytes that a chip must have in flight, and warps an SM") {
  const Multiprocessors &a100 = multiprocessors_of("a100"), &h100 = multiprocessors_of("h100");
  CHECK(a100.latency == near(330.7e-9).epsilon(1e-3));
  CHECK(h100.latency == near(261.6e-9).epsilon(1e-3));
  CHECK(108 * bytes_in_flight(a100) == near(661e3).epsilon(1e-3));
  CHECK(132 * bytes_in_flight(h100) == near(876e3).epsilon(1e-3));
  CHECK(warps_needed(a100, 4) == near(47.8).epsilon(1e-3));
  CHECK(warps_needed(h100, 4) == near(51.9).epsilon(1e-3));
  CHECK(warps_needed(h100, 16) == near(warps_needed(h100, 4) / 4));
  CHECK(warps_needed(h100, 16) == near(warps_needed(h100, 4, 4)));
}

TEST_CASE("with the warps of the law the bandwidth is reached, with half of them half of it") {
  for (const char* chip : {"a100", "h100"})
    for (const double bytes : {4.0, 16.0}) {
      const Multiprocessors& sm = multiprocessors_of(chip);
      const double full = chip_named(chip).bandwidth, warps = warps_needed(sm, bytes);
      CHECK(bandwidth_reached(sm, warps, bytes) == near(full));
      CHECK(bandwidth_reached(sm, 2 * warps, bytes) == full);
      CHECK(bandwidth_reached(sm, warps / 2, bytes) == near(full / 2));
      CHECK(bandwidth_reached(sm, 1, bytes) < 0.1 * full);
    }
}

TEST_CASE("a latency that nobody has measured is an error, not a bandwidth of nothing") {
  CHECK(yotta_test::contains(
      yotta_test::message_of([] { warps_needed(multiprocessors_of("b200"), 4); }),
      "the latency of b200's memory is not known"));
}
