#include "yotta/machine/stragglers.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/refused.hpp"
#include "yotta/machine/clock.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("options of a clock that cannot be are refused") {
  const auto clock = [](const ClockOptions& options) {
    return [=] { VirtualClock(ideal(4, 1, 8), 0, options); };
  };
  check_refused({
      {"Stragglers::jitter is -0.1, expected 0 or more; by default it is 0",
       clock({.stragglers = {.jitter = -0.1}})},
      {"SlowRank::factor is 0, expected above 0; 2 is half as fast",
       clock({.stragglers = {.slow_ranks = {{1, 0}}}})},
      {"SlowLink::factor is nan", clock({.stragglers = {.slow_links = {{0, 1, NAN}}}})},
      {"a chip of ClockOptions::chips is 4, expected a number from 0 to 3; a cluster counts from "
       "0",
       clock({.chips = {0, 4}})},
      {"ClockOptions::chips is -1", clock({.chips = {-1}})},
  });
}
