#include "yotta/device/emulator/check_regions.hpp"

#include <doctest/doctest.h>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

int variable_of_the_program = 1;

}  // namespace

TEST_CASE("an address belongs to an array, to shared memory, to the program, or to nobody") {
  DeviceArray<float> x(10), y(20);
  x.named("x");
  y.named("y", 5);
  alignas(128) std::byte dynamic[256] = {};
  emulator::Regions regions(image_of(&variable_of_the_program), {}, dynamic, 100);
  const auto find = [&](const void* p) { return regions.find(reinterpret_cast<uintptr_t>(p), 0); };
  for (int twice = 0; twice < 2; ++twice) {
    REQUIRE(find(x.data() + 9) != nullptr);
    CHECK(find(x.data() + 9)->name == "x");
    CHECK(find(y.data())->columns == 5);
    CHECK(find(x.data() + 10) == nullptr);
    CHECK(find(dynamic + 99)->shared);
    CHECK(find(dynamic + 100) == nullptr);
    CHECK(find(nullptr) == nullptr);
  }
  const auto before_y = reinterpret_cast<uintptr_t>(y.data()) - 4;
  CHECK(regions.after(before_y)->name == "y");
  CHECK(regions.at_or_before(reinterpret_cast<uintptr_t>(x.data() + 10))->name == "x");
  CHECK(regions.in_program(reinterpret_cast<uintptr_t>(&variable_of_the_program)));
  CHECK_FALSE(regions.in_program(reinterpret_cast<uintptr_t>(x.data())));
}
