#include "yotta/machine/memory_levels.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("each level of an H100's memory holds as much as the one before, and gives less") {
  const auto levels = h100_memories();
  for (size_t i = 1; i < levels.size(); ++i) {
    CHECK(levels[i].bytes >= levels[i - 1].bytes);
    CHECK(levels[i].bandwidth < levels[i - 1].bandwidth);
  }
  CHECK(levels[0].bytes == 132 * 256 * 1024);
  CHECK(levels[0].bandwidth == doctest::Approx(371e12).epsilon(0.001));
  CHECK(levels[2].bandwidth == doctest::Approx(9.37e12).epsilon(0.001));
  CHECK(levels[3].bandwidth == chip_named("h100").bandwidth);
  CHECK(levels[3].latency == doctest::Approx(262e-9).epsilon(0.005));
}
