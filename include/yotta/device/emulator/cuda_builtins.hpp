// CUDA's words on the CPU: what nvcc knows by itself, declared for g++ and clang.
//
//     __global__ void scale(float* x, float factor) {
//       const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//       x[i] *= factor;
//     }
//
// __shared__ is thread_local: all threads of a block run on one OS thread, so they share it, and blocks on other
// OS threads have their own. As on a GPU its contents are undefined when a block starts. (`extern __shared__`
// has no counterpart: dynamic_shared<T>() of kernel.hpp gives that memory in every build.)
// nvcc has its own: for it, this file is empty.
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>

#include "yotta/device/emulator/simt_block.hpp"

#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#if defined(__CLANG_REPL__)
#define __global__
#define __shared__ static thread_local
#else
#define __global__ __attribute__((abi_tag("yotta_kernel")))
#define __shared__ static thread_local __attribute__((abi_tag("yotta_shared") YOTTA_APART))
#endif
// Under checks no array ends where the next begins: each starts at a multiple of 64 KiB, and none is larger than 48.
#if defined(YOTTA_CHECKED)
#define YOTTA_APART , aligned(1 << 16)
#else
#define YOTTA_APART
#endif

#define threadIdx (::yotta::emulator::thread_index())
#define blockIdx (::yotta::emulator::block_index())
#define blockDim (::yotta::emulator::block_size())
#define gridDim (::yotta::emulator::grid_size())

inline constexpr int warpSize = 32;

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// These never change during a thread's life, so the compiler may ask once: hence const.
#if defined(YOTTA_CHECKED)
#define YOTTA_ASK_ONCE YOTTA_UNSEEN __attribute__((const, noinline))
#else
#define YOTTA_ASK_ONCE __attribute__((const))
#endif
YOTTA_ASK_ONCE inline const uint3& thread_index() { return this_lane->thread; }
YOTTA_ASK_ONCE inline const uint3& block_index() { return this_lane->block_index; }
YOTTA_ASK_ONCE inline const dim3& block_size() { return this_lane->block_size; }
YOTTA_ASK_ONCE inline const dim3& grid_size() { return this_lane->grid_size; }

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

// The barrier of a block.
inline void __syncthreads(yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  yotta::emulator::this_lane->block->barrier(0, where);
}
// The same, and tells every thread how many brought a predicate that is not zero, whether all did, whether any did.
inline int __syncthreads_count(int predicate, yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  return yotta::emulator::this_lane->block->barrier(predicate != 0, where);
}
inline int __syncthreads_and(int predicate, yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  yotta::emulator::Block& block = *yotta::emulator::this_lane->block;
  return block.barrier(predicate != 0, where) == block.threads();
}
inline int __syncthreads_or(int predicate, yotta::Where where = yotta::Where::current()) {
  const yotta::emulator::UncheckedScope aside;
  return yotta::emulator::this_lane->block->barrier(predicate != 0, where) > 0;
}

// What this thread wrote before is seen by others before what it writes after; here all see everything at once.
inline void __threadfence() {
  const yotta::emulator::UncheckedScope aside;
  yotta::emulator::this_lane->block->watch().fence();
}
inline void __threadfence_block() {}
inline void __threadfence_system() { __threadfence(); }

}  // namespace YOTTA_DEVICE_BUILD

#endif
