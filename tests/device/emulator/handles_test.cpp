#include "yotta/device/emulator/handles.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a handle that was destroyed is not living, and the next one has another address") {
  Handles<int> all;
  CHECK(all.empty());
  int* const first = all.add(std::make_unique<int>(7));
  CHECK(all.living(first));
  CHECK(all.destroy(first));
  CHECK_FALSE(all.destroy(first));
  CHECK_FALSE(all.destroy(nullptr));
  CHECK(*first == 7);  // it is kept
  for (int i = 0; i < 60; ++i) {
    int* const next = all.add(std::make_unique<int>(i));
    CHECK(next != first);
    CHECK(all.destroy(next));
  }
  CHECK_FALSE(all.living(first));
  CHECK(all.empty());
}
