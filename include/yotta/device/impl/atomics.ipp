// The bodies of device/atomics.hpp.
#pragma once

#include "yotta/device/atomics.hpp"

#include "yotta/device/emulator/impl/scheduler.ipp"
#include "yotta/device/emulator/scheduler.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

YOTTA_INLINE void give_way(Where where) {
  const UncheckedScope unchecked;
  Lane& self = running_lane("an atomic operation", where);
  self.where = where;
  self.gave_way_at = self.ticks;
  self.waits = true;
  if (lane_is_late)
    self.block->give_up(reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - 1);
  self.block->pause();
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
