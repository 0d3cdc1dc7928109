// CUDA's vector types on the CPU: float4 and its relatives, which a thread loads and stores in one access of up
// to 16 bytes.
// nvcc has its own: for it, this file is empty.
#pragma once

#if !defined(__CUDACC__)

#include <cstdint>

#include "yotta/device/simt_build.hpp"

inline namespace YOTTA_DEVICE_BUILD {

#define YOTTA_VECTOR_TYPE(T, name)                                      \
  struct alignas(2 * sizeof(T)) name##2 {                               \
    T x, y;                                                             \
  };                                                                    \
  struct name##3 {                                                      \
    T x, y, z;                                                          \
  };                                                                    \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 {     \
    T x, y, z, w;                                                       \
  };                                                                    \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

YOTTA_VECTOR_TYPE(float, float)
YOTTA_VECTOR_TYPE(double, double)
YOTTA_VECTOR_TYPE(int, int)
YOTTA_VECTOR_TYPE(unsigned, uint)
YOTTA_VECTOR_TYPE(short, short)
YOTTA_VECTOR_TYPE(signed char, char)
YOTTA_VECTOR_TYPE(unsigned char, uchar)
YOTTA_VECTOR_TYPE(unsigned short, ushort)
#undef YOTTA_VECTOR_TYPE

}  // namespace YOTTA_DEVICE_BUILD

#endif
