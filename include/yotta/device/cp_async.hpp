// cp.async: a copy from global to shared memory that a thread starts and does not wait for.
//
//     cp_async<16>(to, from);     starts to copy 16 bytes; no register holds them
//     cp_async<16>(to, from, 6);  6 bytes, then 10 zeros: for the edge of a matrix; 0 reads nothing
//     cp_async_commit();          what this thread has started since the last commit is a group
//     cp_async_wait<1>();         waits until at most 1 of this thread's groups is still on its way
//     __syncthreads();            and only now may other threads read what this one has copied
//
// On the CPU the bytes land only in cp_async_wait(): a thread that reads too early finds the old
// contents, and the checked build reports it.
//
// Contract: to in shared, from in global memory, both multiples of the size: 4, 8 or 16 bytes. (16
// bytes bypass the L1 cache, .cg; the others go through it, .ca.) Copies that are not waited for
// are lost when the thread ends.
// References: PTX ISA, "Data Movement and Conversion Instructions: cp.async"; from compute
// capability 8.0.
#pragma once

#include <cstdint>

#include "yotta/device/kernel.hpp"
#if !defined(__CUDACC__)
#include "yotta/device/emulator/cuda_builtins.hpp"
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

namespace emulator {

void start_async_copy(void* to, const void* from, int size, int bytes, Where where);
void commit_async_copies();
// Completes the copies of all groups but the last `pending`.
void wait_for_async_copies(int pending);

}  // namespace emulator

template <int size>
void cp_async(void* to, const void* from, int bytes = size, Where where = Where::current()) {
  static_assert(size == 4 || size == 8 || size == 16);
  emulator::start_async_copy(to, from, size, bytes, where);
}

inline void cp_async_commit() { emulator::commit_async_copies(); }

template <int pending>
void cp_async_wait() {
  static_assert(pending >= 0);
  emulator::wait_for_async_copies(pending);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/cp_async.ipp"
#endif
