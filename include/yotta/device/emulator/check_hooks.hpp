// The hooks: functions that the compiler calls before each access of code compiled with -fsanitize=thread.
//
//     y[i] = x[i];      becomes      __tsan_read4(&x[i]);  __tsan_write4(&y[i]);  y[i] = x[i];
//
// ThreadSanitizer's library is not linked; these take its place. While a lane runs a kernel's own code they ask its watch;
// for the host's code in the same file they return at once. Weak: each file has them, the linker keeps one.
// Atomic operations of host code (std::atomic, shared_ptr) become calls too: check_atomics.hpp.
// Reference: LLVM, compiler-rt/lib/tsan/rtl/tsan_interface.h.
#pragma once

#if defined(YOTTA_CHECKED)

#include <cstddef>
#include <cstring>

#include "yotta/device/emulator/check_atomics.hpp"
#include "yotta/device/emulator/check_extents.hpp"
#include "yotta/device/emulator/access_checker.hpp"
#include "yotta/device/emulator/simt_block.hpp"

#define YOTTA_HOOK extern "C" __attribute__((weak, used)) YOTTA_UNSEEN

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

YOTTA_UNSEEN __attribute__((always_inline)) inline void seen(const void* address, size_t bytes,
                                                             Access access,
                                                             const void* return_address) {
  AccessChecker* const watch = on_duty;
  if (watch == nullptr) return;
  on_duty = nullptr;  // what the watch itself does is not the kernel's
  watch->access(address, bytes, access, watch->site(return_address));
  on_duty = watch;
}

// A struct or an array: one access if it is as wide as a load may be, else word by word.
YOTTA_UNSEEN inline void seen_range(const void* address, size_t bytes, Access access,
                                    const void* return_address) {
  if (bytes <= 16 && (bytes & (bytes - 1)) == 0)
    return seen(address, bytes, access, return_address);
  const size_t step = (reinterpret_cast<uintptr_t>(address) | bytes) % 4 == 0 ? 4 : 1;
  for (size_t i = 0; i < bytes; i += step)
    seen(static_cast<const char*>(address) + i, step, access, return_address);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#define YOTTA_ACCESS_HOOK(name, bytes, kind)                             \
  YOTTA_HOOK void name(void* address) {                                  \
    yotta::emulator::seen(address, bytes, yotta::emulator::Access::kind, \
                          __builtin_return_address(0));                  \
  }
#define YOTTA_ACCESS_HOOKS(bytes)                                       \
  YOTTA_ACCESS_HOOK(__tsan_read##bytes, bytes, read)                    \
  YOTTA_ACCESS_HOOK(__tsan_write##bytes, bytes, write)                  \
  YOTTA_ACCESS_HOOK(__tsan_unaligned_read##bytes, bytes, read)          \
  YOTTA_ACCESS_HOOK(__tsan_unaligned_write##bytes, bytes, write)        \
  YOTTA_ACCESS_HOOK(__tsan_volatile_read##bytes, bytes, read)           \
  YOTTA_ACCESS_HOOK(__tsan_volatile_write##bytes, bytes, write)         \
  YOTTA_ACCESS_HOOK(__tsan_unaligned_volatile_read##bytes, bytes, read) \
  YOTTA_ACCESS_HOOK(__tsan_unaligned_volatile_write##bytes, bytes, write)
YOTTA_ACCESS_HOOKS(1)
YOTTA_ACCESS_HOOKS(2)
YOTTA_ACCESS_HOOKS(4)
YOTTA_ACCESS_HOOKS(8)
YOTTA_ACCESS_HOOKS(16)
#undef YOTTA_ACCESS_HOOKS
#undef YOTTA_ACCESS_HOOK

// x += y, where the compiler notes both at once.
#define YOTTA_READ_WRITE_HOOK(name, bytes)                                \
  YOTTA_HOOK void name(void* address) {                                   \
    yotta::emulator::seen(address, bytes, yotta::emulator::Access::read,  \
                          __builtin_return_address(0));                   \
    yotta::emulator::seen(address, bytes, yotta::emulator::Access::write, \
                          __builtin_return_address(0));                   \
  }
YOTTA_READ_WRITE_HOOK(__tsan_read_write1, 1)
YOTTA_READ_WRITE_HOOK(__tsan_read_write2, 2)
YOTTA_READ_WRITE_HOOK(__tsan_read_write4, 4)
YOTTA_READ_WRITE_HOOK(__tsan_read_write8, 8)
YOTTA_READ_WRITE_HOOK(__tsan_read_write16, 16)
#undef YOTTA_READ_WRITE_HOOK

// Structs and arrays as a whole.
YOTTA_HOOK void __tsan_read_range(void* address, long bytes) {
  yotta::emulator::seen_range(address, static_cast<size_t>(bytes), yotta::emulator::Access::read,
                              __builtin_return_address(0));
}
YOTTA_HOOK void __tsan_write_range(void* address, long bytes) {
  yotta::emulator::seen_range(address, static_cast<size_t>(bytes), yotta::emulator::Access::write,
                              __builtin_return_address(0));
}
YOTTA_HOOK void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  yotta::emulator::seen_range(from, bytes, yotta::emulator::Access::read,
                              __builtin_return_address(0));
  yotta::emulator::seen_range(to, bytes, yotta::emulator::Access::write,
                              __builtin_return_address(0));
  return std::memcpy(to, from, bytes);
}
YOTTA_HOOK void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  yotta::emulator::seen_range(from, bytes, yotta::emulator::Access::read,
                              __builtin_return_address(0));
  yotta::emulator::seen_range(to, bytes, yotta::emulator::Access::write,
                              __builtin_return_address(0));
  return std::memmove(to, from, bytes);
}
YOTTA_HOOK void* __tsan_memset(void* to, int value, size_t bytes) {
  yotta::emulator::seen_range(to, bytes, yotta::emulator::Access::write,
                              __builtin_return_address(0));
  return std::memset(to, value, bytes);
}

// Notes that mean nothing here.
YOTTA_HOOK void __tsan_init() {}
YOTTA_HOOK void __tsan_func_entry(void*) {}
YOTTA_HOOK void __tsan_func_exit(void*) {}
YOTTA_HOOK void __tsan_vptr_update(void*, void*) {}
YOTTA_HOOK void __tsan_vptr_read(void**) {}

#undef YOTTA_HOOK

#endif
