#include "yotta/nn/schedule.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("warm-up is a straight line to the peak, then half a cosine to the floor") {
  const Schedule lr{.peak = 1, .floor = 0.1, .warmup = 4, .steps = 24};
  CHECK(lr(0) == 0.25);
  CHECK(lr(3) == 1);
  CHECK(lr(4) == 1);
  CHECK(lr(14) == doctest::Approx(0.55));  // half way
  CHECK(lr(9) == doctest::Approx(0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2));
  CHECK(lr(24) == doctest::Approx(0.1));
  CHECK(lr(1000) == doctest::Approx(0.1));
}

TEST_CASE("no warm-up, and a run that is all warm-up") {
  CHECK(Schedule{.peak = 2, .floor = 1, .warmup = 0, .steps = 10}(0) == 2);
  CHECK(Schedule{.peak = 2, .floor = 1, .warmup = 10, .steps = 10}(9) == 2);
  CHECK(Schedule{.peak = 2, .floor = 1, .warmup = 10, .steps = 10}(11) == 1);
}
