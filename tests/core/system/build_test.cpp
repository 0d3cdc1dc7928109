#include "yotta/core/system/build.hpp"

#include <doctest/doctest.h>

// The asan and tsan presets define YOTTA_TIER_ASAN and YOTTA_TIER_TSAN beside their -fsanitize
// flags.
TEST_CASE("a build knows under which sanitizer it runs") {
#if defined(YOTTA_TIER_ASAN)
  CHECK(YOTTA_ASAN == 1);
#else
  CHECK(YOTTA_ASAN == 0);
#endif
#if defined(YOTTA_TIER_TSAN)
  CHECK(YOTTA_TSAN == 1);
#else
  CHECK(YOTTA_TSAN == 0);
#endif
}
