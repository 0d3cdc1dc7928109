// CUDA's words for several threads that take 16-bit floats: atomic additions and shuffles of pairs.
// Reference: CUDA C++ Programming Guide, "atomicAdd()", "Warp Shuffle Functions".
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "yotta/device/atomics.hpp"
#include "yotta/device/unchanged/half_types.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

template <class T>
concept ShortNumber = ShortFloat<T> || ShortPair<T>;
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;

template <class T>
YOTTA_UNSEEN BitsOf<T> to_bits(const T& value) {
  BitsOf<T> bits;
  std::memcpy(&bits, static_cast<const void*>(&value), sizeof bits);
  return bits;
}
template <class T>
YOTTA_UNSEEN T from_bits(BitsOf<T> bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof bits);
  return value;
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

template <yotta::emulator::ShortNumber T>
T atomicAdd(T* at, std::type_identity_t<T> value, yotta::Where where = yotta::Where::current()) {
  using namespace yotta::emulator;
  const auto add = [&](BitsOf<T> bits) { return to_bits(from_bits<T>(bits) + value); };
  return from_bits<T>(atomically(reinterpret_cast<BitsOf<T>*>(at), add, where));
}

#define YOTTA_SHUFFLE(word, By)                                         \
  template <yotta::emulator::ShortPair T>                               \
  T word(unsigned mask, T value, By by, int width = 32,                 \
         yotta::Where where = yotta::Where::current()) {                \
    return yotta::emulator::from_bits<T>(                               \
        word(mask, yotta::emulator::to_bits(value), by, width, where)); \
  }
YOTTA_SHUFFLE(__shfl_sync, int)
YOTTA_SHUFFLE(__shfl_up_sync, unsigned)
YOTTA_SHUFFLE(__shfl_down_sync, unsigned)
YOTTA_SHUFFLE(__shfl_xor_sync, int)
#undef YOTTA_SHUFFLE

}  // namespace YOTTA_DEVICE_BUILD

#endif
