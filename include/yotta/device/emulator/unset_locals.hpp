// Local variables that a kernel reads before it sets them.
//
//     float sums[4];                            no "= {}"
//     for (...) sums[i] += a * b;               a GPU's registers hold anything
//     c[i] = sums[i];                           fresh stacks hold zeros: right here, wrong there
//
// So the checked build lets the compiler fill such variables with a pattern
// (-ftrivial-auto-var-init=pattern in cmake/kernels.cmake), and a sum of floats keeps it: clang's
// is a NaN, g++'s so large that what is added is lost. Results that are copied to the host are
// compared with it. If the host has given the kernel such a NaN, one in the result says nothing.
#pragma once

#include "yotta/device/emulator/device_build.hpp"

#if defined(YOTTA_CHECKED)

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "yotta/device/emulator/debug_info.hpp"
#include "yotta/device/emulator/global_memory.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

template <class T>
constexpr unsigned char unset_byte() {
#if defined(__clang__)
  return std::is_floating_point_v<T> ? 0xff : 0xaa;
#else
  return 0xfe;
#endif
}

// Throws if an element of [at, at + host.size()), which was copied to `host`, is the pattern and a
// kernel wrote it.
template <class T>
void refuse_unset_locals(const T* at, const std::vector<T>& host, Where where) {
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4) {
    std::array<unsigned char, sizeof(T)> pattern;
    pattern.fill(unset_byte<T>());
    for (size_t i = 0; i < host.size(); ++i) {
      if (std::memcmp(&host[i], pattern.data(), sizeof(T)) != 0) continue;
      const auto site = DeviceMemory::instance().written_by_kernel(at + i, sizeof(T));
      if (!site) continue;
      if (DeviceMemory::instance().holds_of_host(pattern.data(), sizeof(T))) return;
      Sites sites(image_of(reinterpret_cast<const void*>(&refuse_unset_locals<T>)));
      fail_as<KernelError>(
          where,
          "{}: {} is what a local variable holds that the kernel has not set. Initialise it: float "
          "sum = 0, float sums[8] = {{}}",
          sites.line(*site).text(), DeviceMemory::instance().describe(at + i, sizeof(T)));
    }
  }
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#endif
