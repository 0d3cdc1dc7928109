#include "yotta/device/emulator/device_build.hpp"

#include <doctest/doctest.h>

#include <string_view>

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
inline constexpr int here = 1;
}
}  // namespace yotta

TEST_CASE("device code of this file lies in the unchecked build's namespace") {
  CHECK(&yotta::here == &yotta::unchecked::here);
}
