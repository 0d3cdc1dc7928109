// Instructions that the lanes of a warp execute together: shuffles, votes, __syncwarp(), and what is built on
// them (mma.sync, ldmatrix).
//
//     lane 0   __shfl_sync(mask, 10, 1) --+                       +--> 20
//     lane 1   __shfl_sync(mask, 20, 0) --+--> all have come: run +--> 10
//     ...                                 |    over their values  |
//     lane 31  ...                      --+                       +--> ...
//
// warp_rendezvous() is the one primitive: each lane brings a pointer to its operands and room for its result,
// the call is carried out once for all, and each lane goes on with its own result. Whoever calls it from a kernel's
// function begins with `const UncheckedScope aside;`. Lanes that the mask does
// not name, and lanes that have returned, are null. Asking for the value of such a lane is an error here, and
// undefined on a GPU. A lane that calls with a mask that does not name itself is refused.
// Reference: CUDA C++ Programming Guide, "Warp Vote Functions", "Warp Shuffle Functions".
// nvcc has its own: for it, this file is empty.
#pragma once

#if !defined(__CUDACC__)

#include <bit>
#include <cstdint>
#include <type_traits>

#include "yotta/device/emulator/simt_block.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

using Lanes = void* const (&)[32];

// Throws an error of the lane that runs.
template <class... Args>
[[noreturn]] void refuse(Where where, fmt::format_string<Args...> message, Args&&... args) {
  const Lane& self = *this_lane;
  fail_as<KernelError>(self.block->task().where, "{}: block {}, thread {}: {}", at(where),
                       text(self.block_index), text(self.thread),
                       fmt::format(message, std::forward<Args>(args)...));
}

// All lanes of `mask` meet; run(the 32 pointers) is called once. Then all go on.
inline void warp_rendezvous(const char* name, uint32_t mask, void* mine, void (*run)(Lanes),
                            Where where) {
  const int lane = this_lane->index % 32;
  if ((mask >> lane & 1) == 0)
    refuse(where,
           "{} is executed by lane {}, which its mask {:#010x} does not name. Compute the mask "
           "before the "
           "branch, with __ballot_sync(), or use 0xffffffff outside of any branch",
           name, lane, mask);
  this_lane->block->warp_call({name, mask, mine, run}, where);
}

// What a lane brings to a shuffle or a vote, and what it takes home.
template <class T>
struct Shuffle {
  T value;
  int source = 0;         // the lane whose value it wants; below 0: its own
  bool inactive = false;  // the result: that lane is not there
};

template <class T>
T shuffle(const char* name, uint32_t mask, T value, int source, Where where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "shuffles move up to 8 bytes");
  Shuffle<T> mine{value, source};
  warp_rendezvous(
      name, mask, &mine,
      [](Lanes lanes) {
        T values[32];
        for (int i = 0; i < 32; ++i)
          if (lanes[i] != nullptr) values[i] = static_cast<Shuffle<T>*>(lanes[i])->value;
        for (void* const lane : lanes) {
          if (lane == nullptr) continue;
          auto& each = *static_cast<Shuffle<T>*>(lane);
          each.inactive = lanes[each.source] == nullptr;
          if (!each.inactive) each.value = values[each.source];
        }
      },
      where);
  if (mine.inactive)
    refuse(where,
           "{} reads from lane {}, which is inactive: it has returned, does not exist, or is not "
           "in the mask "
           "{:#010x}. Let all lanes take part and give those without data a neutral value",
           name, source, mask);
  return mine.value;
}

// The lane that a shuffle reads from: groups of `width` lanes (a power of two) shuffle among themselves, and
// who asks beyond the group's end gets its own value.
inline int source_in_group(int lane, int source, int width) {
  const int group = lane / width * width;
  return source < group || source >= group + width ? lane : source;
}

// All lanes' predicates as a mask.
inline uint32_t ballot(const char* name, uint32_t mask, bool predicate, Where where) {
  struct Vote {
    bool predicate;
    uint32_t all;
  } mine{predicate, 0};
  warp_rendezvous(
      name, mask, &mine,
      [](Lanes lanes) {
        uint32_t all = 0;
        for (int i = 0; i < 32; ++i)
          if (lanes[i] != nullptr && static_cast<Vote*>(lanes[i])->predicate) all |= 1u << i;
        for (void* const lane : lanes)
          if (lane != nullptr) static_cast<Vote*>(lane)->all = all;
      },
      where);
  return mine.all;
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

// The lanes of the mask wait for each other, and see what the others wrote before.
inline void __syncwarp(unsigned mask = 0xffffffffu, yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  char here = 0;
  const auto meet = [](yotta::emulator::Lanes lanes) {
    uint32_t met = 0;
    for (int i = 0; i < 32; ++i) met |= uint32_t{lanes[i] != nullptr} << i;
    const yotta::emulator::Lane& one = *yotta::emulator::this_lane;
    one.block->watch().lanes_met(one.index / 32, met);
  };
  yotta::emulator::warp_rendezvous("__syncwarp()", mask, &here, meet, where);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  const int lane = yotta::emulator::this_lane->index % 32;
  return yotta::emulator::shuffle("__shfl_sync()", mask, value,
                                  lane / width * width + (source & (width - 1)), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  const int lane = yotta::emulator::this_lane->index % 32;
  const int source = yotta::emulator::source_in_group(lane, lane - static_cast<int>(delta), width);
  return yotta::emulator::shuffle("__shfl_up_sync()", mask, value, source, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  const int lane = yotta::emulator::this_lane->index % 32;
  const int source = yotta::emulator::source_in_group(lane, lane + static_cast<int>(delta), width);
  return yotta::emulator::shuffle("__shfl_down_sync()", mask, value, source, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  const int lane = yotta::emulator::this_lane->index % 32;
  // Groups below its own may be read, groups above may not: so says the guide.
  const int wanted = lane ^ lane_mask;
  const int source = wanted >= lane / width * width + width ? lane : wanted;
  return yotta::emulator::shuffle("__shfl_xor_sync()", mask, value, source, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  return yotta::emulator::ballot("__ballot_sync()", mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate, yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  return yotta::emulator::ballot("__any_sync()", mask, predicate != 0, where) != 0;
}
// True if the predicate of every lane that takes part is not zero.
inline int __all_sync(unsigned mask, int predicate, yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  return yotta::emulator::ballot("__all_sync()", mask, predicate == 0, where) == 0;
}
}  // namespace YOTTA_DEVICE_BUILD

#endif
