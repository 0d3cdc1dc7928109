// The bodies of device/unchanged/warp_words.hpp.
#pragma once

#include "yotta/device/unchanged/warp_words.hpp"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <map>
#include <tuple>

#include "yotta/device/emulator/lanes.hpp"
#include "yotta/device/emulator/scheduler.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What a lane brings, and what it takes home.
struct LaneMatch {
  uint64_t bits;
  uint32_t same;
};

YOTTA_INLINE YOTTA_UNSEEN uint32_t matching_lanes(const char* name, uint32_t mask, uint64_t bits,
                                                  Where where) {
  LaneMatch mine{bits, 0};
  const auto run = [](Lanes lanes) YOTTA_UNSEEN {
    for (void* const lane : lanes) {
      if (lane == nullptr) continue;
      auto& one = *static_cast<LaneMatch*>(lane);
      for (int i = 0; i < 32; ++i)
        if (lanes[i] != nullptr && static_cast<LaneMatch*>(lanes[i])->bits == one.bits)
          one.same |= 1u << i;
    }
  };
  warp_rendezvous(name, mask, &mine, run, where);
  return mine.same;
}

struct LaneJoin {
  uint64_t bits;
  uint64_t (*join)(uint64_t, uint64_t);
};

YOTTA_INLINE YOTTA_UNSEEN uint64_t joined_bits(const char* name, uint32_t mask, uint64_t bits,
                                               uint64_t (*join)(uint64_t, uint64_t), Where where) {
  LaneJoin mine{bits, join};
  const auto run = [](Lanes lanes) YOTTA_UNSEEN {
    const LaneJoin* first = nullptr;
    uint64_t all = 0;
    for (void* const lane : lanes) {
      if (lane == nullptr) continue;
      const auto* const one = static_cast<LaneJoin*>(lane);
      all = first == nullptr ? one->bits : one->join(all, one->bits);
      if (first == nullptr) first = one;
    }
    for (void* const lane : lanes)
      if (lane != nullptr) static_cast<LaneJoin*>(lane)->bits = all;
  };
  warp_rendezvous(name, mask, &mine, run, where);
  return mine.bits;
}

YOTTA_INLINE void trap(Where where) {
  const UncheckedScope unchecked;
  refuse(where, "__trap() was called");
}

YOTTA_INLINE void refuse_tile_place(const void* at, unsigned stride, unsigned step, Where where) {
  const UncheckedScope unchecked;
  if (stride % step != 0)
    refuse(where, fmt::format("wmma needs a stride that is a multiple of {} elements, and got {}: "
                              "pad the rows",
                              step, stride));
  refuse(where,
         fmt::format("wmma needs a tile that begins at a multiple of 32 bytes, and this one begins "
                     "{} bytes behind one: align the array, or begin at another element",
                     reinterpret_cast<uintptr_t>(at) % 32));
}

YOTTA_INLINE uint32_t active_lanes(Where where) {
  const UncheckedScope unchecked;
  const Lane& self = running_lane("__activemask()", where);
  auto& lists = self.block->active_lists;
  ActivePlace place = {self.index / 32, where.file_name(), where.line(), where.column(), 0};
  while (lists[place].closed) ++std::get<4>(place);  // others have yet to take that one
  ActiveList& list = lists[place];
  list.lanes |= 1u << (self.index % 32);
  ++list.left;
  give_way(where);
  list.closed = true;
  const uint32_t lanes = list.lanes;
  if (--list.left == 0) lists.erase(place);
  return lanes;
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

YOTTA_INLINE long long clock64() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace YOTTA_DEVICE_BUILD
