// Atomic operations of host code in a file with checked kernels: the compiler turns them into calls of
// ThreadSanitizer's library, which is not linked, so here they are turned back.
//
//     std::atomic<int> n;  ++n;      becomes      __tsan_atomic32_fetch_add(&n, 1, order)
//
// A kernel's own atomics (atomicAdd) are functions of atomics.hpp and do not pass here. All are sequentially
// consistent, whatever was asked for: never wrong, and speed does not matter here.
// Reference: LLVM, compiler-rt/include/sanitizer/tsan_interface_atomic.h.
#pragma once

#include <cstdint>

#include "yotta/device/emulator/simt_build.hpp"

#define YOTTA_ATOMIC extern "C" __attribute__((weak, used)) YOTTA_UNSEEN

// Signatures are those of the compiler's built-in declarations.
#define YOTTA_ATOMIC_CHANGE(bits, name)                                                         \
  YOTTA_ATOMIC uint##bits##_t __tsan_atomic##bits##_##name(volatile void* at,                   \
                                                           uint##bits##_t value, int) {         \
    return __atomic_##name(static_cast<volatile uint##bits##_t*>(at), value, __ATOMIC_SEQ_CST); \
  }

#define YOTTA_ATOMIC_COMPARE(bits, name)                                                     \
  YOTTA_ATOMIC bool __tsan_atomic##bits##_compare_exchange_##name(                           \
      volatile void* at, void* expected, uint##bits##_t value, int, int) {                   \
    return __atomic_compare_exchange_n(static_cast<volatile uint##bits##_t*>(at),            \
                                       static_cast<uint##bits##_t*>(expected), value, false, \
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                  \
  }

#define YOTTA_ATOMICS(bits)                                                                     \
  YOTTA_ATOMIC uint##bits##_t __tsan_atomic##bits##_load(const volatile void* at, int) {        \
    return __atomic_load_n(static_cast<const volatile uint##bits##_t*>(at), __ATOMIC_SEQ_CST);  \
  }                                                                                             \
  YOTTA_ATOMIC void __tsan_atomic##bits##_store(volatile void* at, uint##bits##_t value, int) { \
    __atomic_store_n(static_cast<volatile uint##bits##_t*>(at), value, __ATOMIC_SEQ_CST);       \
  }                                                                                             \
  YOTTA_ATOMIC uint##bits##_t __tsan_atomic##bits##_exchange(volatile void* at,                 \
                                                             uint##bits##_t value, int) {       \
    return __atomic_exchange_n(static_cast<volatile uint##bits##_t*>(at), value,                \
                               __ATOMIC_SEQ_CST);                                               \
  }                                                                                             \
  YOTTA_ATOMIC uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                       \
      volatile void* at, uint##bits##_t expected, uint##bits##_t value, int, int) {             \
    __atomic_compare_exchange_n(static_cast<volatile uint##bits##_t*>(at), &expected, value,    \
                                false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
    return expected;                                                                            \
  }                                                                                             \
  YOTTA_ATOMIC_COMPARE(bits, strong)                                                            \
  YOTTA_ATOMIC_COMPARE(bits, weak)                                                              \
  YOTTA_ATOMIC_CHANGE(bits, fetch_add)                                                          \
  YOTTA_ATOMIC_CHANGE(bits, fetch_sub)                                                          \
  YOTTA_ATOMIC_CHANGE(bits, fetch_and)                                                          \
  YOTTA_ATOMIC_CHANGE(bits, fetch_or)                                                           \
  YOTTA_ATOMIC_CHANGE(bits, fetch_xor)                                                          \
  YOTTA_ATOMIC_CHANGE(bits, fetch_nand)
YOTTA_ATOMICS(8)
YOTTA_ATOMICS(16)
YOTTA_ATOMICS(32)
YOTTA_ATOMICS(64)

YOTTA_ATOMIC void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
YOTTA_ATOMIC void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

#undef YOTTA_ATOMICS
#undef YOTTA_ATOMIC_CHANGE
#undef YOTTA_ATOMIC_COMPARE
#undef YOTTA_ATOMIC
