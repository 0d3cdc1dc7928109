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
  constexpr int most = 1 << 20;
  if (++this_lane->waits > most)
    refuse(where,
           fmt::format("has tried {} times without success. What it waits for does not happen: a "
                       "thread of another block may not run before this one has ended (unless "
                       "blocks are there at once: launch_cooperative, or "
                       "emulator_options().blocks_at_once), and lanes that wait for each other "
                       "need __syncwarp() or a barrier",
                       most));
  this_lane->where = where;
  this_lane->block->pause();
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
