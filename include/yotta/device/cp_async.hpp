// cp.async: a copy from global to shared memory that a thread starts and does not wait for.
//
//     cp_async<16>(to, from);           16 bytes set out; no register holds them on their way
//     cp_async<16>(to, from, 6);        6 bytes, then 10 zeros: for the edge of a matrix; 0 reads nothing
//     cp_async_commit();                what this thread has started since the last commit is a group
//     cp_async_wait<1>();               waits until at most 1 of this thread's groups is still on its way
//     __syncthreads();                  and only now may other threads read what this one has copied
//
// On the CPU the bytes land only in cp_async_wait(): whoever reads too early finds what was there before, and the
// checked build says so.
//
// Contract: to in shared, from in global memory, both multiples of the size: 4, 8 or 16 bytes. (16 bytes bypass the
// L1 cache, .cg; the others go through it, .ca.) Copies that are not waited for are lost when the thread ends.
// References: PTX ISA, "Data Movement and Conversion Instructions: cp.async"; from compute capability 8.0.
#pragma once

#include <cstdint>
#include <cstring>

#include "yotta/device/kernel.hpp"
#if !defined(__CUDACC__)
#include "yotta/device/emulator/simt_access.hpp"
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

template <int size>
__device__ __forceinline__ void cp_async(void* to, const void* from, int bytes = size) {
  static_assert(size == 4 || size == 8 || size == 16);
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (size == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                 "n"(size), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

#else

template <int size>
YOTTA_UNSEEN void cp_async(void* to, const void* from, int bytes = size,
                           Where where = Where::current()) {
  static_assert(size == 4 || size == 8 || size == 16);
  const emulator::UncheckedScope aside;  // what follows is the emulator's, not the kernel's
  if (bytes < 0 || bytes > size)
    emulator::refuse(
        where,
        "cp_async<{}>() is asked for {} bytes; 0 to {} are possible, the rest is set to zero", size,
        bytes, size);
  const auto wanted = static_cast<size_t>(bytes);
  if (bytes > 0) emulator::note_read(from, wanted, where);
  emulator::note_copy_begins(to, size, where);
  emulator::Lane& self = *emulator::this_lane;
  self.copies.push_back({to, from, size, wanted, self.copy_group, where});
}

YOTTA_UNSEEN inline void cp_async_commit() {
  const emulator::UncheckedScope aside;
  ++emulator::this_lane->copy_group;
}

// Lands what belongs to the groups before the last `pending`.
template <int pending>
YOTTA_UNSEEN void cp_async_wait() {
  static_assert(pending >= 0);
  const emulator::UncheckedScope aside;
  emulator::Lane& self = *emulator::this_lane;
  size_t landed = 0;
  for (; landed < self.copies.size() && self.copies[landed].group + pending < self.copy_group;
       ++landed) {
    const emulator::AsyncCopy& copy = self.copies[landed];
    auto* to = static_cast<char*>(copy.to);
    if (copy.from_bytes > 0) std::memcpy(to, copy.from, copy.from_bytes);
    std::memset(to + copy.from_bytes, 0, copy.bytes - copy.from_bytes);
    emulator::note_copy_ends(copy.to, copy.bytes, copy.where);
    emulator::note_write(copy.to, copy.bytes, copy.where);
  }
  self.copies.erase(self.copies.begin(), self.copies.begin() + static_cast<std::ptrdiff_t>(landed));
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
