// The bodies of device/emulator/cuda_builtins.hpp.
#pragma once

#include "yotta/device/emulator/cuda_builtins.hpp"

#include "yotta/device/emulator/scheduler.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

YOTTA_INLINE void refuse_on_host(const char* word, Where where) {
  fail_as<KernelError>(where,
                       "{} is used on the host, outside of any kernel. Call it from a kernel, and "
                       "launch that",
                       word);
}

#define YOTTA_LANES_OWN(name, T, member)                        \
  YOTTA_INLINE const T* name() noexcept {                       \
    return this_lane == nullptr ? nullptr : &this_lane->member; \
  }
YOTTA_LANES_OWN(thread_index_here, uint3, thread)
YOTTA_LANES_OWN(block_index_here, uint3, block_index)
YOTTA_LANES_OWN(block_size_here, dim3, block_size)
YOTTA_LANES_OWN(grid_size_here, dim3, grid_size)
YOTTA_LANES_OWN(lane_index_here, int, in_warp)
#undef YOTTA_LANES_OWN

YOTTA_INLINE std::byte* dynamic_shared_memory(Where where) {
  const UncheckedScope unchecked;
  return running_lane("dynamic shared memory", where).block->dynamic_shared();
}

YOTTA_INLINE void grid_sync(Where where) {
  const UncheckedScope unchecked;
  Block& block = *running_lane("this_grid().sync()", where).block;
  if (!block.task().cooperative)
    refuse(where,
           "this_grid().sync() needs a cooperative launch, in which all blocks are there at once: "
           "launch_cooperative(kernel, grid, block, ...)");
  block.grid_barrier(where);
}

YOTTA_INLINE void refuse(Where where, const std::string& why) {
  const Lane& self = *this_lane;
  fail_as<KernelError>(self.block->task().where, "{}: block {}, thread {}: {}", at(where),
                       text(self.block_index), text(self.thread), why);
}

YOTTA_INLINE void warp_rendezvous(const char* name, uint32_t mask, void* mine, void (*run)(Lanes),
                                  Where where) {
  const UncheckedScope unchecked;
  const int lane = running_lane(name, where).in_warp;
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

template <class Place>
void note_access(const void* address, size_t bytes, Access access, Place where, Where line) {
  const UncheckedScope unchecked;
  AccessChecker& checker = running_lane("an atomic operation or a copy", line).block->checker();
  checker.access(address, bytes, access, checker.site(where));
}

YOTTA_INLINE void note_read(const void* from, size_t bytes, Where where) {
  note_access(from, bytes, Access::read, where, where);
}

YOTTA_INLINE void note_write(const void* to, size_t bytes, Where where) {
  note_access(to, bytes, Access::write, where, where);
}

inline Access access_of(AtomicKind kind) {
  constexpr Access all[] = {Access::volatile_read, Access::volatile_write, Access::atomic};
  return all[static_cast<size_t>(kind)];
}

YOTTA_INLINE void note_atomic(const void* at, size_t bytes, Where where, AtomicKind kind) {
  note_access(at, bytes, access_of(kind), where, where);
}

YOTTA_INLINE void note_atomic(const void* at, size_t bytes, const void* return_address,
                              AtomicKind kind) {
  note_access(at, bytes, access_of(kind), return_address, Where::current());
}

YOTTA_INLINE void note_read_group(const void* const* addresses, const int* lanes, int count,
                                  size_t bytes, Where where) {
  Block& block = *this_lane->block;
  AccessChecker& checker = block.checker();
  const uint32_t site = checker.site(where);
  const int first = this_lane->index / 32 * 32;
  Request request;
  for (int i = 0; i < count; ++i) {
    const Lane& lane = block.lane(first + lanes[i]);
    checker.check_space(lane, addresses[i], bytes, Access::read, site, true);
    checker.check(lane, addresses[i], bytes, Access::read, site, 0);
    request.addresses[request.lanes++] = reinterpret_cast<uintptr_t>(addresses[i]);
  }
  checker.counters().count({0, site, static_cast<uint8_t>(bytes), Access::read, true}, request);
}

YOTTA_INLINE void note_copy_from(const void* from, size_t bytes, size_t whole, Where where) {
  const UncheckedScope unchecked;
  AccessChecker& checker = this_lane->block->checker();
  checker.begin_copy_from(*this_lane, from, bytes, whole, checker.site(where));
  note_read(from, bytes, where);
}

YOTTA_INLINE void note_copy_changed(const void* from, size_t bytes, Where where) {
  const UncheckedScope unchecked;
  AccessChecker& checker = this_lane->block->checker();
  checker.copy_changed(from, bytes, checker.site(where));
}

YOTTA_INLINE void note_copy_begins(void* to, size_t bytes, Where where) {
  const UncheckedScope unchecked;
  AccessChecker& checker = this_lane->block->checker();
  checker.begin_copy(*this_lane, to, bytes, checker.site(where));
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
  yotta::emulator::running_lane("__syncthreads()", where).block->barrier(0, where);
}

YOTTA_INLINE int __syncthreads_count(int predicate, yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  return yotta::emulator::running_lane("__syncthreads_count()", where)
      .block->barrier(predicate != 0, where);
}

YOTTA_INLINE int __syncthreads_and(int predicate, yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  yotta::emulator::Block& block =
      *yotta::emulator::running_lane("__syncthreads_and()", where).block;
  const int votes = block.barrier(predicate != 0, where);
  return votes == block.voters();
}

YOTTA_INLINE int __syncthreads_or(int predicate, yotta::Where where) {
  return __syncthreads_count(predicate, where) > 0;
}

YOTTA_INLINE void __threadfence(yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  yotta::emulator::running_lane("__threadfence()", where)
      .block->checker()
      .fence(yotta::emulator::FenceScope::device);
}

YOTTA_INLINE void __threadfence_block(yotta::Where where) {
  const yotta::emulator::UncheckedScope unchecked;
  yotta::emulator::running_lane("__threadfence_block()", where)
      .block->checker()
      .fence(yotta::emulator::FenceScope::block);
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
