// CUDA's 16-bit floats, __half and __nv_bfloat16, and their pairs, by the same names in both
// builds.
//
//     y[i] = __float2bfloat16(2.0f * __bfloat162float(x[i]));  storage in 16 bits, arithmetic in 32
//
//     nvcc     cuda_fp16.h, cuda_bf16.h: the vendor's types
//     CPU      core/dtype.hpp's float16 and bfloat16, which have the same bits and round alike
//
// Only what both builds share is here: static_cast<float>(h), T(f), the conversions below, and
// pairs that move as one 4-byte access. Arithmetic on 16-bit values is best done in f32; tensor
// cores do their own.
// nvcc compiles this file too.
#pragma once

#include "yotta/device/kernel.hpp"

#if defined(__CUDACC__)

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#else

#include "yotta/core/dtype.hpp"
#include "yotta/device/vector_types.hpp"

using __half = yotta::float16;
using __nv_bfloat16 = yotta::bfloat16;
using half = __half;

inline namespace YOTTA_DEVICE_BUILD {

YOTTA_VECTOR_2(__half, __half2, 4);
YOTTA_VECTOR_2(__nv_bfloat16, __nv_bfloat162, 4);
using half2 = __half2;

inline __half __float2half(float x) { return __half(x); }
inline float __half2float(__half x) { return static_cast<float>(x); }
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return static_cast<float>(x); }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline float2 __half22float2(const __half2& v) {
  return {static_cast<float>(v.x), static_cast<float>(v.y)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline float2 __bfloat1622float2(const __nv_bfloat162& v) {
  return {static_cast<float>(v.x), static_cast<float>(v.y)};
}

}  // namespace YOTTA_DEVICE_BUILD

#endif
