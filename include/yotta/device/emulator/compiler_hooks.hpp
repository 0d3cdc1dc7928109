// The hooks: functions that the compiler calls in code compiled with -fsanitize=thread and
// -fsanitize=bounds.
//
//     y[i] = x[i];               __tsan_read4(&x[i]);  __tsan_write4(&y[i]);  y[i] = x[i];
//     std::atomic<int> n;  ++n;  __tsan_atomic32_fetch_add(&n, 1, order)
//     float s[8];  s[i] = 1;     if (i >= 8) __ubsan_handle_out_of_bounds(...);  s[i] = 1;
//
// The sanitizers' libraries are not linked; these functions take their place. While a lane runs a
// kernel's own code they call the access checker; for the host's code in the same file they return
// at once. Weak: where each file has them, the linker keeps one.
//
// Accesses. One hook per size; structs and arrays as a whole are ranges.
//
// Atomics of host code. A kernel's own atomics (atomicAdd) are functions of atomics.hpp and do not
// pass here. All are sequentially consistent, whatever was asked for: never wrong, and speed does
// not matter here.
//
// Indices beyond the declared size of their array, though there may be memory of ours where they
// lead:
//
//     __shared__ float tile[32][32];  tile[0][40]  lies in row 1: in the region, but a mistake
//     float sums[8];                  sums[8]      lies on the thread's stack, next to other values
//
// Addresses cannot tell, so the compiler compares such an index with the type of its array. Where a
// pointer into the array is indexed, the type is lost: then only the array's end counts, since no
// two arrays are adjacent (__shared__ in cuda_builtins.hpp).
// References: LLVM, compiler-rt/lib/tsan/rtl/tsan_interface.h,
// include/sanitizer/tsan_interface_atomic.h and lib/ubsan/ubsan_handlers.h.
#pragma once

#include "yotta/device/emulator/device_build.hpp"

#if defined(YOTTA_CHECKED)

#include <cstdint>

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// What the compiler passes. Of a type: its kind, its size (of an integer: twice log2 of the bits,
// plus 1 if it is signed), and its name, "'float [8]'".
struct CompilersType {
  uint16_t kind, info;
  char name[1];
};
struct CompilersIndex {
  const char* file;
  uint32_t line, column;
  const CompilersType *array, *index;
};

// The index as a number: signed ones that are narrower than a register arrive without their upper
// bits.
YOTTA_UNSEEN constexpr int64_t signed_index(uint16_t info, uint64_t value) {
  const int bits = 1 << (info >> 1);
  if ((info & 1) == 0 || bits >= 64) return static_cast<int64_t>(value);
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/device/emulator/impl/compiler_hooks.ipp"
#endif
#endif
