// The bodies of device/emulator/compiler_hooks.hpp.
#pragma once

#include "yotta/device/emulator/compiler_hooks.hpp"

#include <cstddef>
#include <cstring>

#include "yotta/device/emulator/access_checker.hpp"
#include "yotta/device/emulator/scheduler.hpp"
#include "yotta/device/emulator/stream_queue.hpp"

#define YOTTA_HOOK extern "C" __attribute__((weak, used)) YOTTA_UNSEEN

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

inline std::string line_of_host(const void* code) {
  Sites sites(image_of(code));
  return sites.line(sites.of(code)).text();
}

// The host's own code: only pinned memory is of interest.
YOTTA_UNSEEN inline void seen_on_host(const void* address, size_t bytes, Access access,
                                      const void* return_address) {
  if (EmulatorWork::here() || !DeviceMemory::instance().is_pinned(address)) return;
  const MemoryUse use = access == Access::read ? MemoryUse::read : MemoryUse::write;
  StreamQueue::instance().host_access(
      {{reinterpret_cast<uintptr_t>(address), bytes, use}, return_address, line_of_host});
}

YOTTA_UNSEEN __attribute__((always_inline)) inline void seen(const void* address, size_t bytes,
                                                             Access access,
                                                             const void* return_address) {
  AccessChecker* const checker = active_checker;
  if (checker == nullptr) {
    if (pinned_range.holds(reinterpret_cast<uintptr_t>(address)))
      seen_on_host(address, bytes, access, return_address);
    return;
  }
  active_checker = nullptr;  // what the checker itself does is not the kernel's
  checker->access(address, bytes, access, checker->site(return_address));
  if (lane_is_late) give_up_lane(return_address);
  active_checker = checker;
}

// One access of the lane that runs, to a part of a struct.
YOTTA_UNSEEN inline void seen_part(const void* address, size_t bytes, Access access,
                                   const void* return_address, const void* whole,
                                   size_t whole_bytes) {
  if (active_checker != nullptr) active_checker->copies_struct(whole, whole_bytes);
  seen(address, bytes, access, return_address);
}

// A struct or an array: accesses as wide as its address and size allow, 16 bytes at most.
YOTTA_UNSEEN inline void seen_range(const void* address, size_t bytes, Access access,
                                    const void* return_address) {
  if (bytes == 0) return;
  const auto first = reinterpret_cast<uintptr_t>(address);
  const bool pinned = pinned_range.holds(first) || pinned_range.holds(first + bytes - 1);
  if (active_checker == nullptr && !pinned) return;
  const size_t both = (first | bytes | 16), step = both & (~both + 1);
  for (size_t i = 0; i < bytes; i += step)
    seen_part(static_cast<const char*>(address) + i, step, access, return_address, address, bytes);
  if (active_checker != nullptr) active_checker->copies_struct(nullptr, 0);
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

// ---- Accesses ----
#define YOTTA_ACCESS_HOOK(name, bytes, kind)                             \
  YOTTA_HOOK void name(void* address) {                                  \
    yotta::emulator::seen(address, bytes, yotta::emulator::Access::kind, \
                          __builtin_return_address(0));                  \
  }
// Small structs that need not be aligned to their size.
#define YOTTA_STRUCT_HOOK(name, bytes, kind)                                   \
  YOTTA_HOOK void name(void* address) {                                        \
    yotta::emulator::seen_range(address, bytes, yotta::emulator::Access::kind, \
                                __builtin_return_address(0));                  \
  }
#define YOTTA_ACCESS_HOOKS(bytes)                                                \
  YOTTA_ACCESS_HOOK(__tsan_read##bytes, bytes, read)                             \
  YOTTA_ACCESS_HOOK(__tsan_write##bytes, bytes, write)                           \
  YOTTA_STRUCT_HOOK(__tsan_unaligned_read##bytes, bytes, read)                   \
  YOTTA_STRUCT_HOOK(__tsan_unaligned_write##bytes, bytes, write)                 \
  YOTTA_ACCESS_HOOK(__tsan_volatile_read##bytes, bytes, volatile_read)           \
  YOTTA_ACCESS_HOOK(__tsan_volatile_write##bytes, bytes, volatile_write)         \
  YOTTA_STRUCT_HOOK(__tsan_unaligned_volatile_read##bytes, bytes, volatile_read) \
  YOTTA_STRUCT_HOOK(__tsan_unaligned_volatile_write##bytes, bytes, volatile_write)
YOTTA_ACCESS_HOOKS(1)
YOTTA_ACCESS_HOOKS(2)
YOTTA_ACCESS_HOOKS(4)
YOTTA_ACCESS_HOOKS(8)
YOTTA_ACCESS_HOOKS(16)
#undef YOTTA_ACCESS_HOOKS
#undef YOTTA_ACCESS_HOOK
#undef YOTTA_STRUCT_HOOK

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

// ---- Copies ----
// clang calls these; g++ calls the C library's, so there ours take their place. Theirs go on under
// other names, since the compiler would take ours for what they call.
extern "C" {
void* yotta_copy(void* to, const void* from, size_t bytes, size_t room) __asm__("__memcpy_chk");
void* yotta_move(void* to, const void* from, size_t bytes, size_t room) __asm__("__memmove_chk");
void* yotta_set(void* to, int value, size_t bytes, size_t room) __asm__("__memset_chk");
}
#define YOTTA_COPY_HOOK(name, copy, exceptions)                                \
  YOTTA_HOOK void* name(void* to, const void* from, size_t bytes) exceptions { \
    yotta::emulator::seen_range(from, bytes, yotta::emulator::Access::read,    \
                                __builtin_return_address(0));                  \
    yotta::emulator::seen_range(to, bytes, yotta::emulator::Access::write,     \
                                __builtin_return_address(0));                  \
    return copy(to, from, bytes, SIZE_MAX);                                    \
  }
#define YOTTA_SET_HOOK(name, exceptions)                                   \
  YOTTA_HOOK void* name(void* to, int value, size_t bytes) exceptions {    \
    yotta::emulator::seen_range(to, bytes, yotta::emulator::Access::write, \
                                __builtin_return_address(0));              \
    return yotta_set(to, value, bytes, SIZE_MAX);                          \
  }
#if defined(__clang__)
YOTTA_COPY_HOOK(__tsan_memcpy, yotta_copy, )
YOTTA_COPY_HOOK(__tsan_memmove, yotta_move, )
YOTTA_SET_HOOK(__tsan_memset, )
#else
YOTTA_COPY_HOOK(memcpy, yotta_copy, noexcept)
YOTTA_COPY_HOOK(memmove, yotta_move, noexcept)
YOTTA_SET_HOOK(memset, noexcept)
#endif
#undef YOTTA_COPY_HOOK
#undef YOTTA_SET_HOOK

// Calls that mean nothing here.
YOTTA_HOOK void __tsan_init() {}
YOTTA_HOOK void __tsan_func_entry(void*) {}
YOTTA_HOOK void __tsan_func_exit(void*) {}
YOTTA_HOOK void __tsan_vptr_update(void*, void*) {}
YOTTA_HOOK void __tsan_vptr_read(void**) {}

// ---- Indices ----
YOTTA_HOOK void __ubsan_handle_out_of_bounds(void* data, void* index) {
  namespace emulator = yotta::emulator;
  emulator::AccessChecker* const checker = emulator::active_checker;
  if (checker == nullptr) return;  // of the host's code
  emulator::active_checker = nullptr;
  const auto& what = *static_cast<const emulator::CompilersIndex*>(data);
  const int64_t number =
      emulator::signed_index(what.index->info, reinterpret_cast<uintptr_t>(index));
  checker->beyond_extent(what.array->name, number, checker->site(__builtin_return_address(0)));
}

// ---- Atomics ----
// Signatures are those of the compiler's built-in declarations.
#define YOTTA_ATOMIC_CHANGE(bits, name)                                                           \
  YOTTA_HOOK uint##bits##_t __tsan_atomic##bits##_##name(volatile void* at, uint##bits##_t value, \
                                                         int) {                                   \
    return __atomic_##name(static_cast<volatile uint##bits##_t*>(at), value, __ATOMIC_SEQ_CST);   \
  }

#define YOTTA_ATOMIC_COMPARE(bits, name)                                                           \
  YOTTA_HOOK bool __tsan_atomic##bits##_compare_exchange_##name(volatile void* at, void* expected, \
                                                                uint##bits##_t value, int, int) {  \
    return __atomic_compare_exchange_n(static_cast<volatile uint##bits##_t*>(at),                  \
                                       static_cast<uint##bits##_t*>(expected), value, false,       \
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                        \
  }

#define YOTTA_ATOMICS(bits)                                                                    \
  YOTTA_HOOK uint##bits##_t __tsan_atomic##bits##_load(const volatile void* at, int) {         \
    return __atomic_load_n(static_cast<const volatile uint##bits##_t*>(at), __ATOMIC_SEQ_CST); \
  }                                                                                            \
  YOTTA_HOOK void __tsan_atomic##bits##_store(volatile void* at, uint##bits##_t value, int) {  \
    __atomic_store_n(static_cast<volatile uint##bits##_t*>(at), value, __ATOMIC_SEQ_CST);      \
  }                                                                                            \
  YOTTA_HOOK uint##bits##_t __tsan_atomic##bits##_exchange(volatile void* at,                  \
                                                           uint##bits##_t value, int) {        \
    return __atomic_exchange_n(static_cast<volatile uint##bits##_t*>(at), value,               \
                               __ATOMIC_SEQ_CST);                                              \
  }                                                                                            \
  YOTTA_HOOK uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                        \
      volatile void* at, uint##bits##_t expected, uint##bits##_t value, int, int) {            \
    __atomic_compare_exchange_n(static_cast<volatile uint##bits##_t*>(at), &expected, value,   \
                                false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                    \
    return expected;                                                                           \
  }                                                                                            \
  YOTTA_ATOMIC_COMPARE(bits, strong)                                                           \
  YOTTA_ATOMIC_COMPARE(bits, weak)                                                             \
  YOTTA_ATOMIC_CHANGE(bits, fetch_add)                                                         \
  YOTTA_ATOMIC_CHANGE(bits, fetch_sub)                                                         \
  YOTTA_ATOMIC_CHANGE(bits, fetch_and)                                                         \
  YOTTA_ATOMIC_CHANGE(bits, fetch_or)                                                          \
  YOTTA_ATOMIC_CHANGE(bits, fetch_xor)                                                         \
  YOTTA_ATOMIC_CHANGE(bits, fetch_nand)
YOTTA_ATOMICS(8)
YOTTA_ATOMICS(16)
YOTTA_ATOMICS(32)
YOTTA_ATOMICS(64)

YOTTA_HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
YOTTA_HOOK void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

#undef YOTTA_ATOMICS
#undef YOTTA_ATOMIC_CHANGE
#undef YOTTA_ATOMIC_COMPARE
#undef YOTTA_HOOK
