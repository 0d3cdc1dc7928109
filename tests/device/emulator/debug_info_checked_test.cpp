// Lines of instructions, from the line tables that the checked build has.
#include "yotta/device/emulator/debug_info.hpp"

#include <doctest/doctest.h>

#include "yotta/device/kernel.hpp"

using namespace yotta;
using emulator::Line;
using emulator::Sites;

namespace {

__attribute__((noinline)) const void* return_address() {
  asm volatile("");  // so that two calls are two calls
  return __builtin_return_address(0);
}

}  // namespace

TEST_CASE("a return address becomes the line of the call") {
  Sites sites(image_of(reinterpret_cast<const void*>(&return_address)));
  const void* const first = return_address();
  const int line = __LINE__ - 1;
  const void* const second = return_address();
  sites.look_up({sites.of(first), sites.of(second)});
  CHECK(sites.line(sites.of(first)) == Line{"debug_info_checked_test.cpp", line});
  CHECK(sites.line(sites.of(second)) == Line{"debug_info_checked_test.cpp", line + 2});
  CHECK(sites.line(sites.of(first)).text() == fmt::format("debug_info_checked_test.cpp:{}", line));
}

TEST_CASE("a source location is a site too, the same one each time") {
  Sites sites(image_of(reinterpret_cast<const void*>(&return_address)));
  const Where one = Where::current(), two = Where::current();
  CHECK(sites.of(one) == sites.of(one));
  CHECK(sites.of(one) != sites.of(two));
  CHECK(sites.line(sites.of(two)) ==
        Line{"debug_info_checked_test.cpp", static_cast<int>(two.line())});
}

TEST_CASE("an address that is nobody's has no line") {
  Sites sites(image_of(reinterpret_cast<const void*>(&return_address)));
  CHECK(sites.line(17).text() == "an unknown line");
}
