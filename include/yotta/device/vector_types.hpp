// CUDA's vector types on the CPU: float4 and its relatives, which a thread loads and stores in one
// access of up to 16 bytes.
//
//     const float4 v = *reinterpret_cast<const float4*>(x + 4 * i);      one load of 16 bytes
//
// In the checked build a vector copies itself through one function, so that it is seen as that one
// access; otherwise the compiler would copy the four floats one by one, and bank conflicts
// and sectors would be miscounted.
// nvcc has its own types, so there this file is empty.
#pragma once

#if !defined(__CUDACC__)

#include <cstddef>

#include "yotta/device/emulator/cuda_builtins.hpp"
#if defined(YOTTA_CHECKED)

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// One load and one store.
YOTTA_UNSEEN YOTTA_CALLED void copy_vector(void* to, const void* from, size_t bytes);

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#define YOTTA_COPIES_AS_ONE(type)                                    \
  type() = default;                                                  \
  __attribute__((always_inline)) type(const type& from) {            \
    ::yotta::emulator::copy_vector(this, &from, sizeof(type));       \
  }                                                                  \
  __attribute__((always_inline)) type& operator=(const type& from) { \
    ::yotta::emulator::copy_vector(this, &from, sizeof(type));       \
    return *this;                                                    \
  }
#endif

inline namespace YOTTA_DEVICE_BUILD {

#if defined(YOTTA_CHECKED)
#define YOTTA_VECTOR_2(T, name, bytes)           \
  struct alignas(bytes) name {                   \
    T x, y;                                      \
    constexpr name(T x_, T y_) : x(x_), y(y_) {} \
    YOTTA_COPIES_AS_ONE(name)                    \
  }
#define YOTTA_VECTOR_4(T, name, bytes)                                     \
  struct alignas(bytes) name {                                             \
    T x, y, z, w;                                                          \
    constexpr name(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {} \
    YOTTA_COPIES_AS_ONE(name)                                              \
  }
#else
#define YOTTA_VECTOR_2(T, name, bytes) \
  struct alignas(bytes) name {         \
    T x, y;                            \
  }
#define YOTTA_VECTOR_4(T, name, bytes) \
  struct alignas(bytes) name {         \
    T x, y, z, w;                      \
  }
#endif

// Of three: no vector access, the compiler loads them one by one, as nvcc does.
#define YOTTA_VECTOR_3(T, name) \
  struct name {                 \
    T x, y, z;                  \
  }
#define YOTTA_VECTOR_TYPES(T, name)                                     \
  YOTTA_VECTOR_2(T, name##2, 2 * sizeof(T));                            \
  YOTTA_VECTOR_4(T, name##4, (sizeof(T) < 8 ? 4 * sizeof(T) : 16));     \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

YOTTA_VECTOR_3(float, float3);
YOTTA_VECTOR_3(double, double3);
YOTTA_VECTOR_3(int, int3);
YOTTA_VECTOR_3(short, short3);
YOTTA_VECTOR_3(unsigned short, ushort3);
YOTTA_VECTOR_3(signed char, char3);
YOTTA_VECTOR_3(unsigned char, uchar3);
YOTTA_VECTOR_3(long long, longlong3);
YOTTA_VECTOR_3(unsigned long long, ulonglong3);
YOTTA_VECTOR_TYPES(float, float)
YOTTA_VECTOR_TYPES(double, double)
YOTTA_VECTOR_TYPES(int, int)
YOTTA_VECTOR_TYPES(unsigned, uint)  // uint3 is the type of threadIdx
YOTTA_VECTOR_TYPES(short, short)
YOTTA_VECTOR_TYPES(unsigned short, ushort)
YOTTA_VECTOR_TYPES(signed char, char)
YOTTA_VECTOR_TYPES(unsigned char, uchar)
YOTTA_VECTOR_TYPES(long long, longlong)
YOTTA_VECTOR_TYPES(unsigned long long, ulonglong)
#undef YOTTA_VECTOR_3
#undef YOTTA_VECTOR_TYPES

}  // namespace YOTTA_DEVICE_BUILD

#endif

#if defined(YOTTA_CHECKED) && !defined(YOTTA_COMPILED)
#include "yotta/device/impl/vector_types.ipp"
#endif
