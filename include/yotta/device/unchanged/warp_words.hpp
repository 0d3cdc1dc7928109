// More of CUDA's words for the lanes of a warp, and for one thread: __match_any_sync,
// __reduce_add_sync and their relatives, __activemask, loads and stores with a hint for the cache,
// clock64, __trap.
//
// __activemask(). A GPU names the lanes that execute the call together. Here lanes run one after
// the other, so the first to call it lets the others go first. Those that come to the same line
// until then are named together:
//
//     lane 0   __activemask() ... waits ............ closes the list {0, 5, 7}
//     lane 5              __activemask() .............. takes it
//     lane 7                          __activemask() .. takes it
//
// A GPU may name fewer: code that needs all lanes of a branch must not ask it.
// Reference: CUDA C++ Programming Guide, "Warp Match Functions", "Warp Reduce Functions", "Warp
// Vote Functions", "Read-Only Data Cache Load Function", "Load Functions Using Cache Hints".
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "yotta/device/atomics.hpp"
#include "yotta/device/emulator/cuda_builtins.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// The lanes of the mask that brought the same bits.
uint32_t matching_lanes(const char* name, uint32_t mask, uint64_t bits, Where where);

// What all lanes of the mask brought, joined from the lowest lane to the highest.
uint64_t joined_bits(const char* name, uint32_t mask, uint64_t bits,
                     uint64_t (*join)(uint64_t, uint64_t), Where where);

template <class T>
YOTTA_UNSEEN uint64_t bits_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T, class Join>
YOTTA_UNSEEN T joined(const char* name, uint32_t mask, T value, Join, Where where) {
  const auto join = [](uint64_t a, uint64_t b) YOTTA_UNSEEN {
    return bits_of(static_cast<T>(Join()(static_cast<T>(a), static_cast<T>(b))));
  };
  return static_cast<T>(joined_bits(name, mask, bits_of(value), join, where));
}

// Ends the launch with an error, as __trap() of a GPU does.
[[noreturn]] void trap(Where where);
// A tile of wmma.hpp whose address or stride tensor cores do not take.
[[noreturn]] void refuse_tile_place(const void* at, unsigned stride, unsigned step, Where where);

uint32_t active_lanes(Where where);

template <class T>
concept WordOfWarp = std::is_same_v<T, int> || std::is_same_v<T, unsigned>;

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

inline unsigned __activemask(yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::active_lanes(where);
}

template <class T>
unsigned __match_any_sync(unsigned mask, T value, yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::matching_lanes("__match_any_sync()", mask,
                                         yotta::emulator::bits_of(value), where);
}
// The mask and a predicate that is not zero if all lanes brought the same; else 0 and 0.
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* predicate,
                          yotta::Where where = yotta::Where::current()) {
  const unsigned same = yotta::emulator::matching_lanes("__match_all_sync()", mask,
                                                        yotta::emulator::bits_of(value), where);
  const bool all = __all_sync(mask, same == __ballot_sync(mask, 1, where), where) != 0;
  *predicate = all;
  return all ? same : 0;
}

// add wraps around.
#define YOTTA_REDUCE(word, T, expression)                                               \
  inline T word(unsigned mask, T value, yotta::Where where = yotta::Where::current()) { \
    struct Join {                                                                       \
      YOTTA_UNSEEN T operator()(T a, T b) const { return expression; }                  \
    };                                                                                  \
    return yotta::emulator::joined(#word "()", mask, value, Join(), where);             \
  }
YOTTA_REDUCE(__reduce_add_sync, unsigned, a + b)
YOTTA_REDUCE(__reduce_min_sync, unsigned, b < a ? b : a)
YOTTA_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
YOTTA_REDUCE(__reduce_min_sync, int, b < a ? b : a)
YOTTA_REDUCE(__reduce_max_sync, int, a < b ? b : a)
YOTTA_REDUCE(__reduce_and_sync, unsigned, a& b)
YOTTA_REDUCE(__reduce_or_sync, unsigned, a | b)
YOTTA_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef YOTTA_REDUCE
inline int __reduce_add_sync(unsigned mask, int value,
                             yotta::Where where = yotta::Where::current()) {
  return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value), where));
}

// ---- One thread ----
// Hints for caches, which are not emulated.
#define YOTTA_LOAD(word)                                        \
  template <class T>                                            \
  __attribute__((always_inline)) inline T word(const T* from) { \
    return *from;                                               \
  }
#define YOTTA_STORE(word)                                                                 \
  template <class T>                                                                      \
  __attribute__((always_inline)) inline void word(T* to, std::type_identity_t<T> value) { \
    *to = value;                                                                          \
  }
YOTTA_LOAD(__ldg)
YOTTA_LOAD(__ldca)
YOTTA_LOAD(__ldcg)
YOTTA_LOAD(__ldcs)
YOTTA_LOAD(__ldlu)
YOTTA_LOAD(__ldcv)
YOTTA_STORE(__stwb)
YOTTA_STORE(__stcg)
YOTTA_STORE(__stcs)
YOTTA_STORE(__stwt)
#undef YOTTA_LOAD
#undef YOTTA_STORE

// Counts up while the program runs: nanoseconds of the host, not cycles of a GPU.
long long clock64();

inline void __trap(yotta::Where where = yotta::Where::current()) { yotta::emulator::trap(where); }
inline void __prof_trigger(int) {}
inline void __brkpt() {}

// Counts limit, limit - 1, ..., 0, limit, ...
inline unsigned atomicDec(unsigned* at, unsigned limit,
                          yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::atomically(
      at, [limit](unsigned x) { return x == 0 || x > limit ? limit : x - 1; }, where);
}

}  // namespace YOTTA_DEVICE_BUILD

#ifndef YOTTA_COMPILED
#include "yotta/device/unchanged/impl/warp_words.ipp"
#endif
#endif
