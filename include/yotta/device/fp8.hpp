// CUDA's 8-bit floats, by the same names in both builds: __nv_cvt_float_to_fp8, and the types
// __nv_fp8_e4m3 and __nv_fp8_e5m2, which round with __NV_SATFINITE.
//
//     x        __nv_fp8_e4m3(x), __NV_SATFINITE     __NV_NOSAT, and float8_e4m3 of core/dtype.hpp
//     1.3      1.25                                 1.25
//     500      448, the largest                     NaN (e5m2: infinity, beyond 57344)
//     NaN      NaN                                  NaN
//
// Saturation keeps one large value from making all sums NaN, and hides that the scale is wrong.
// nvcc compiles this file too, and has these words of cuda_fp8.h.
// References: CUDA Math API, "FP8 Conversion and Data Movement"; PTX ISA, cvt, ".satfinite".
#pragma once

#include "yotta/device/kernel.hpp"

#if defined(__CUDACC__)

#include <cuda_fp8.h>

#else

#include <cmath>

#include "yotta/core/dtype.hpp"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
using __nv_fp8_storage_t = unsigned char;

inline namespace YOTTA_DEVICE_BUILD {

inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                __nv_fp8_interpretation_t kind) {
  const float largest = kind == __NV_E4M3 ? 448.0f : 57344.0f;
  if (saturate == __NV_SATFINITE && std::fabs(x) > largest) x = std::copysign(largest, x);
  return kind == __NV_E4M3 ? yotta::float8_e4m3(x).bits : yotta::float8_e5m2(x).bits;
}

struct __nv_fp8_e4m3 {
  __nv_fp8_storage_t __x = 0;
  __nv_fp8_e4m3() = default;
  explicit __nv_fp8_e4m3(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) {}
  explicit operator float() const { return yotta::float8_e4m3::decode(__x); }
};

struct __nv_fp8_e5m2 {
  __nv_fp8_storage_t __x = 0;
  __nv_fp8_e5m2() = default;
  explicit __nv_fp8_e5m2(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2)) {}
  explicit operator float() const { return yotta::float8_e5m2::decode(__x); }
};

}  // namespace YOTTA_DEVICE_BUILD

#endif
