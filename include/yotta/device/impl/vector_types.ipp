// The bodies of device/vector_types.hpp.
#pragma once

#include "yotta/device/vector_types.hpp"

#include <cstdint>

#include "yotta/device/emulator/compiler_hooks.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

YOTTA_CALLED void copy_vector(void* to, const void* from, size_t bytes) {
  const void* const line = __builtin_return_address(0);
  seen(from, bytes, Access::read, line);
  seen(to, bytes, Access::write, line);
  yotta_copy(to, from, bytes, SIZE_MAX);  // not memcpy, which g++'s hooks see
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
