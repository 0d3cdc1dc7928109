// The bodies of device/counted.hpp.
#pragma once

#include "yotta/device/counted.hpp"

#include "yotta/device/emulator/access_checker.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

YOTTA_CALLED void count_flops_here(int64_t flops) {
  AccessChecker* const checker = active_checker;
  if (checker == nullptr) return;
  const UncheckedScope unchecked;
  checker->counters().count_flops(checker->site(__builtin_return_address(0)), flops);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
