// The bodies of device/emulator/cuda_builtins.hpp.
#pragma once

#include "yotta/device/emulator/cuda_builtins.hpp"

#include "yotta/device/emulator/scheduler.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

YOTTA_INLINE const uint3& thread_index() { return this_lane->thread; }
YOTTA_INLINE const uint3& block_index() { return this_lane->block_index; }
YOTTA_INLINE const dim3& block_size() { return this_lane->block_size; }
YOTTA_INLINE const dim3& grid_size() { return this_lane->grid_size; }
YOTTA_INLINE int lane_index() { return this_lane->index % 32; }

YOTTA_INLINE std::byte* dynamic_shared_memory() {
  const UncheckedScope unchecked;
  return this_lane->block->dynamic_shared();
}

YOTTA_INLINE void grid_sync(Where where) {
  const UncheckedScope unchecked;
  if (!this_lane->block->task().cooperative)
    refuse(where,
           "this_grid().sync() needs a cooperative launch, in which all blocks are there at once: "
           "launch_cooperative(kernel, grid, block, ...)");
  this_lane->block->grid_barrier(where);
}

YOTTA_INLINE void refuse(Where where, const std::string& why) {
  const Lane& self = *this_lane;
  fail_as<KernelError>(self.block->task().where, "{}: block {}, thread {}: {}", at(where),
                       text(self.block_index), text(self.thread), why);
}

YOTTA_INLINE void warp_rendezvous(const char* name, uint32_t mask, void* mine, void (*run)(Lanes),
                                  Where where) {
  const UncheckedScope unchecked;
  const int lane = this_lane->index % 32;
  if ((mask >> lane & 1) == 0)
    refuse(where, fmt::format("{} is executed by lane {}, which its mask {:#010x} does not name. "
                              "Compute the mask before the branch, with __ballot_sync(), or use "
                              "0xffffffff outside of any branch",
                              name, lane, mask));
  this_lane->block->warp_call({name, mask, mine, run}, where);
}

YOTTA_INLINE void begin_whole_warp(const char* name, int present, Where where) {
  if (present < 32)
    refuse(where, fmt::format("{} needs all 32 lanes of the warp, and {} have returned or do not "
                              "exist. Let all lanes call it, those outside of the matrix with "
                              "zeros; launch blocks of 32 threads or multiples",
                              name, 32 - present));
  count_instruction(name, where);
}

// What a lane brings to a shuffle, and what it takes home.
struct Shuffle {
  uint64_t bits;
  int source;             // the lane whose value it wants
  bool inactive = false;  // the result: that lane is not there
};

YOTTA_INLINE uint64_t shuffle_bits(const char* name, uint32_t mask, uint64_t bits, int source,
                                   Where where) {
  const UncheckedScope unchecked;
  Shuffle mine{bits, source};
  const auto run = [](Lanes lanes) {
    uint64_t brought[32] = {};
    for (int i = 0; i < 32; ++i)
      if (lanes[i] != nullptr) brought[i] = static_cast<Shuffle*>(lanes[i])->bits;
    for (void* const lane : lanes) {
      if (lane == nullptr) continue;
      auto& each = *static_cast<Shuffle*>(lane);
      each.inactive = lanes[each.source] == nullptr;
      if (!each.inactive) each.bits = brought[each.source];
    }
  };
  warp_rendezvous(name, mask, &mine, run, where);
  if (mine.inactive)
    refuse(where, fmt::format("{} reads from lane {}, which is inactive: it has returned, does not "
                              "exist, or is not in the mask {:#010x}. Let all lanes take part and "
                              "give those without data a neutral value",
                              name, source, mask));
  return mine.bits;
}

YOTTA_INLINE uint32_t ballot(const char* name, uint32_t mask, bool predicate, Where where) {
  const UncheckedScope unchecked;
  struct Vote {
    bool predicate;
    uint32_t all;
  } mine{predicate, 0};
  const auto run = [](Lanes lanes) {
    uint32_t all = 0;
    for (int i = 0; i < 32; ++i)
      if (lanes[i] != nullptr && static_cast<Vote*>(lanes[i])->predicate) all |= 1u << i;
    for (void* const lane : lanes)
      if (lane != nullptr) static_cast<Vote*>(lane)->all = all;
  };
  warp_rendezvous(name, mask, &mine, run, where);
  return mine.all;
}

#if defined(YOTTA_CHECKED)

inline void note_access(const void* address, size_t bytes, Access access, Where where) {
  const UncheckedScope unchecked;
  AccessChecker& checker = this_lane->block->checker();
  checker.access(address, bytes, access, checker.site(where));
}

YOTTA_INLINE void note_read(const void* from, size_t bytes, Where where) {
  note_access(from, bytes, Access::read, where);
}

YOTTA_INLINE void note_write(const void* to, size_t bytes, Where where) {
  note_access(to, bytes, Access::write, where);
}

YOTTA_INLINE void note_atomic(const void* at, size_t bytes, Where where) {
  note_access(at, bytes, Access::atomic, where);
}

YOTTA_INLINE void note_read_group(const void* const* addresses, const int* lanes, int count,
                                  size_t bytes, Where where) {
  Block& block = *this_lane->block;
  AccessChecker& checker = block.checker();
  const uint32_t site = checker.site(where);
  const int first = this_lane->index / 32 * 32;
  Request request;
  for (int i = 0; i < count; ++i) {
    checker.check(block.lane(first + lanes[i]), addresses[i], bytes, Access::read, site, 0);
    request.addresses[request.lanes++] = reinterpret_cast<uintptr_t>(addresses[i]);
  }
  checker.counters().count({0, site, static_cast<uint8_t>(bytes), Access::read, true}, request);
}

YOTTA_INLINE void note_copy_begins(void* to, size_t bytes, Where where) {
  const UncheckedScope unchecked;
  AccessChecker& checker = this_lane->block->checker();
  checker.check(*this_lane, to, bytes, Access::write, checker.site(where), in_flight_mark);
}

YOTTA_INLINE void note_copy_ends(void* to, size_t bytes, Where where) {
  const UncheckedScope unchecked;
  AccessChecker& checker = this_lane->block->checker();
  checker.finish_copy(*this_lane, to, bytes, checker.site(where));
}

YOTTA_INLINE void count_instruction(const char* name, Where) {
  this_lane->block->checker().counters().count_instruction(name);
}

YOTTA_INLINE void count_flops(int64_t flops, Where where) {
  AccessChecker& checker = this_lane->block->checker();
  checker.counters().count_flops(checker.site(where), flops);
}

#endif

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

YOTTA_INLINE void __syncthreads(yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  yotta::emulator::this_lane->block->barrier(0, where);
}

YOTTA_INLINE int __syncthreads_count(int predicate, yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  return yotta::emulator::this_lane->block->barrier(predicate != 0, where);
}

YOTTA_INLINE int __syncthreads_and(int predicate, yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  yotta::emulator::Block& block = *yotta::emulator::this_lane->block;
  return block.barrier(predicate != 0, where) == block.threads();
}

YOTTA_INLINE int __syncthreads_or(int predicate, yotta::Where where) {
  return __syncthreads_count(predicate, where) > 0;
}

YOTTA_INLINE void __threadfence() {
  const yotta::emulator::UncheckedScope unchecked;
  yotta::emulator::this_lane->block->checker().fence();
}

YOTTA_INLINE void __syncwarp(unsigned mask, yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  char here = 0;
  const auto meet = [](yotta::emulator::Lanes lanes) {
    uint32_t met = 0;
    for (int i = 0; i < 32; ++i) met |= uint32_t{lanes[i] != nullptr} << i;
    const yotta::emulator::Lane& one = *yotta::emulator::this_lane;
    one.block->checker().lanes_met(one.index / 32, met);
  };
  yotta::emulator::warp_rendezvous("__syncwarp()", mask, &here, meet, where);
}

YOTTA_INLINE unsigned __ballot_sync(unsigned mask, int predicate, yotta::Where where) {
  return yotta::emulator::ballot("__ballot_sync()", mask, predicate != 0, where);
}

YOTTA_INLINE int __any_sync(unsigned mask, int predicate, yotta::Where where) {
  return yotta::emulator::ballot("__any_sync()", mask, predicate != 0, where) != 0;
}

YOTTA_INLINE int __all_sync(unsigned mask, int predicate, yotta::Where where) {
  return yotta::emulator::ballot("__all_sync()", mask, predicate == 0, where) == 0;
}

}  // namespace YOTTA_DEVICE_BUILD
