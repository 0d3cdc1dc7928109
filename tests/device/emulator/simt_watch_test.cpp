#include "yotta/device/emulator/simt_watch.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace yotta::emulator;

TEST_CASE("in the unchecked build nobody watches, and it costs nothing") {
  CHECK(std::is_empty_v<AccessChecker>);
  CHECK(std::is_empty_v<UncheckedScope>);
}
