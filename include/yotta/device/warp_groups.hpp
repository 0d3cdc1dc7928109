// Words for blocks whose warps do different work: barriers of some of the threads, and registers
// that one group gives to another.
//
//     bar_sync(1, 256);           waits until 256 threads have come to barrier 1
//     bar_arrive(1, 256);         counts as one of them, and goes on
//     setmaxnreg_dec<40>();       a group of four warps that needs few registers gives some back
//     setmaxnreg_inc<232>();      and another takes them
//
// Contract: barriers 1 to 15, since 0 is that of __syncthreads(); whole warps, so numbers of
// threads are multiples of 32. Numbers of registers are multiples of 8 from 24 to 256, all four
// warps of a group name the same, and all groups of a block have 65,536 together. setmaxnreg:
// compute capability 9.0 alone (sm_90a), elsewhere it traps. References: PTX ISA, "bar, barrier",
// "setmaxnreg".
#pragma once

#include "yotta/device/wgmma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

#if defined(__CUDACC__)

__device__ __forceinline__ void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
template <int registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0);
  YOTTA_SM90A("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0);
  YOTTA_SM90A("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

#else

void bar_sync(int barrier, int threads, Where where = Where::current());
void bar_arrive(int barrier, int threads, Where where = Where::current());

namespace emulator {

void set_registers(int registers, bool more, Where where);

}  // namespace emulator

template <int registers>
void setmaxnreg_dec(Where where = Where::current()) {
  static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0);
  emulator::set_registers(registers, false, where);
}
template <int registers>
void setmaxnreg_inc(Where where = Where::current()) {
  static_assert(registers >= 24 && registers <= 256 && registers % 8 == 0);
  emulator::set_registers(registers, true, where);
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/warp_groups.ipp"
#endif
