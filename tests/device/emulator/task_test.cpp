#include "yotta/device/emulator/task.hpp"

#include <doctest/doctest.h>

using namespace yotta::emulator;

TEST_CASE("threads are numbered along x first, then y, then z") {
  const dim3 block(4, 2, 3);
  uint64_t index = 0;
  for (unsigned z = 0; z < 3; ++z)
    for (unsigned y = 0; y < 2; ++y)
      for (unsigned x = 0; x < 4; ++x) {
        const uint3 at = coordinates(index++, block);
        CHECK((at.x == x && at.y == y && at.z == z));
      }
  const uint3 size = dim3(7);
  CHECK((size.x == 7 && size.y == 1 && size.z == 1));
}
