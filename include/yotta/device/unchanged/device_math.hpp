// CUDA's functions of one thread for floats, on the CPU: those that the C library does not have.
//
// The fast ones, __expf and its like, are the host's exact ones: a GPU's last bits may differ. min
// and max are CUDA's, for every pair of arithmetic types.
// Reference: CUDA Math API, "Single Precision Intrinsics", "Single Precision Mathematical
// Functions".
#pragma once

#if !defined(__CUDACC__)

#include <cmath>
#include <type_traits>

#include "yotta/device/emulator/device_build.hpp"

inline namespace YOTTA_DEVICE_BUILD {

// ---- Functions ----
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / std::cbrt(x); }
inline double rcbrt(double x) { return 1.0 / std::cbrt(x); }
inline double sinpi(double x) { return std::sin(3.14159265358979323846 * std::remainder(x, 2.0)); }
inline double cospi(double x) { return std::cos(3.14159265358979323846 * std::remainder(x, 2.0)); }
inline float sinpif(float x) { return static_cast<float>(sinpi(x)); }
inline float cospif(float x) { return static_cast<float>(cospi(x)); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x), *cosine = cospif(x);
}
// The part of the standard normal distribution that lies below x.
inline double normcdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
inline float normcdff(float x) { return static_cast<float>(normcdf(x)); }
inline float norm3df(float x, float y, float z) { return std::hypot(x, y, z); }
inline float rnorm3df(float x, float y, float z) { return 1.0f / std::hypot(x, y, z); }
inline float rhypotf(float x, float y) { return 1.0f / std::hypot(x, y); }
inline float fdividef(float x, float y) { return x / y; }

}  // namespace YOTTA_DEVICE_BUILD

// ---- The fast ones ----
// glibc declares these names and keeps them to itself.
extern "C" {
inline float __expf(float x) noexcept { return std::exp(x); }
inline float __exp10f(float x) noexcept { return std::pow(10.0f, x); }
inline float __logf(float x) noexcept { return std::log(x); }
inline float __log2f(float x) noexcept { return std::log2(x); }
inline float __log10f(float x) noexcept { return std::log10(x); }
inline float __powf(float x, float y) noexcept { return std::pow(x, y); }
inline float __sinf(float x) noexcept { return std::sin(x); }
inline float __cosf(float x) noexcept { return std::cos(x); }
inline float __tanf(float x) noexcept { return std::tan(x); }
inline void __sincosf(float x, float* sine, float* cosine) noexcept {
  *sine = std::sin(x), *cosine = std::cos(x);
}
}

inline namespace YOTTA_DEVICE_BUILD {

inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// ---- Arithmetic that the compiler does not fuse, rounded to the nearest ----
// A number that the compiler must have computed: g++ fuses a product with the sum that it goes
// into, also from one function to the next.
template <class Real>
Real computed(Real x) {
  const volatile Real number = x;
  return number;
}
#define YOTTA_ARITHMETIC(Real, letter, fma_word)                                       \
  inline Real __##letter##add_rn(Real x, Real y) { return computed(x) + computed(y); } \
  inline Real __##letter##sub_rn(Real x, Real y) { return computed(x) - computed(y); } \
  inline Real __##letter##mul_rn(Real x, Real y) { return computed(x * y); }           \
  inline Real __##letter##div_rn(Real x, Real y) { return x / y; }                     \
  inline Real __##letter##rcp_rn(Real x) { return 1 / x; }                             \
  inline Real __##letter##sqrt_rn(Real x) { return std::sqrt(x); }                     \
  inline Real fma_word(Real x, Real y, Real z) { return std::fma(x, y, z); }
YOTTA_ARITHMETIC(float, f, __fmaf_rn)
YOTTA_ARITHMETIC(double, d, __fma_rn)
#undef YOTTA_ARITHMETIC
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / std::sqrt(double{x})); }

// ---- The smaller and the larger; not NaN, if the other is a number ----
#define YOTTA_EXTREME(word, of_floats, expression)                               \
  template <class A, class B>                                                    \
  requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>                    \
  constexpr std::common_type_t<A, B> word(A a, B b) {                            \
    using Common = std::common_type_t<A, B>;                                     \
    const Common x = static_cast<Common>(a), y = static_cast<Common>(b);         \
    if constexpr (std::is_floating_point_v<Common>) return std::of_floats(x, y); \
    return expression;                                                           \
  }
YOTTA_EXTREME(min, fmin, y < x ? y : x)
YOTTA_EXTREME(max, fmax, x < y ? y : x)
#undef YOTTA_EXTREME

}  // namespace YOTTA_DEVICE_BUILD

#endif
