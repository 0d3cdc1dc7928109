#include "yotta/device/emulator/simt_lane.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace yotta::emulator;

TEST_CASE("stacks do not overlap, begin at different cache lines, and are used again") {
  Stacks* const stacks = Stacks::take();
  std::set<uintptr_t> offsets;
  for (int lane = 0; lane < most_threads; ++lane) {
    CHECK(stacks->top(lane) > stacks->bottom(lane) + page_bytes);
    CHECK(stacks->top(lane) <= stacks->bottom(lane + 1));
    CHECK(reinterpret_cast<uintptr_t>(stacks->top(lane)) % 64 == 0);
    offsets.insert(reinterpret_cast<uintptr_t>(stacks->top(lane)) % page_bytes);
  }
  CHECK(offsets.size() == 64);
  Stacks* const others = Stacks::take();
  CHECK(others != stacks);
  Stacks::give_back(others);
  Stacks::give_back(stacks);
  CHECK(Stacks::take() == stacks);
  Stacks::give_back(stacks);
}

TEST_CASE("outside of kernels no lane runs") { CHECK(this_lane == nullptr); }
