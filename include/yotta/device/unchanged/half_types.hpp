// CUDA's 16-bit floats on the CPU: __half, __nv_bfloat16, their pairs, and arithmetic on them.
//
//     __half2 y = __hfma2(a, x, y);       two numbers in 4 bytes, an operation on both
//     __half z = x * y + __float2half(1); operators as for float
//
// Each operation rounds once, to nearest even: it is computed in f32, which has more than twice the
// digits, so that rounding f32's result to 16 bits gives the same. A fused multiply-add is computed
// in f64, in which the product is exact; what does not fit sets the last bit (round to odd).
// Mixed expressions, __half times float, are ambiguous here as they are for nvcc: convert first.
// Reference: CUDA Math API, "Half Precision Intrinsics", "Bfloat16 Precision Intrinsics"; S. Boldo,
// G. Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE TC 57, 2008.
#pragma once

#if !defined(__CUDACC__)

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "yotta/core/dtype.hpp"
#include "yotta/device/unchanged/integer_intrinsics.hpp"
#include "yotta/device/vector_types.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// x as a float; if x lies between two, the one of them whose last bit is 1. Rounded to 16 bits, it
// gives what x would.
template <class Wide>
constexpr float to_odd_float(Wide x) {
  const auto rounded = static_cast<float>(x);
  if (rounded == x || rounded - rounded != 0) return rounded;  // exact; infinite, NaN
  auto bits = std::bit_cast<uint32_t>(rounded);
  if ((rounded > x) == (x > 0)) --bits;
  return std::bit_cast<float>(bits | 1);
}

// A float of 16 bits with operators.
template <class Storage>
class CudaFloat {
 public:
  CudaFloat() = default;
  constexpr CudaFloat(float x) : value_(x) {}
  constexpr CudaFloat(double x) : value_(to_odd_float(x)) {}
  template <std::integral Integer>
  constexpr CudaFloat(Integer x)
      : value_(to_odd_float(
            static_cast<std::conditional_t<(sizeof(x) < 8), double, long double>>(x))) {}
  template <class Other>
  explicit constexpr CudaFloat(CudaFloat<Other> x) : value_(static_cast<float>(x)) {}
  constexpr operator float() const { return static_cast<float>(value_); }

  static constexpr CudaFloat from_bits(uint16_t bits) {
    CudaFloat x;
    x.value_.bits = bits;
    return x;
  }
  constexpr uint16_t bits() const { return value_.bits; }

  friend constexpr CudaFloat operator+(CudaFloat a, CudaFloat b) { return float(a) + float(b); }
  friend constexpr CudaFloat operator-(CudaFloat a, CudaFloat b) { return float(a) - float(b); }
  friend constexpr CudaFloat operator*(CudaFloat a, CudaFloat b) { return float(a) * float(b); }
  friend constexpr CudaFloat operator/(CudaFloat a, CudaFloat b) { return float(a) / float(b); }
  friend constexpr CudaFloat operator-(CudaFloat a) { return from_bits(a.bits() ^ 0x8000); }
  friend constexpr CudaFloat operator+(CudaFloat a) { return a; }
  constexpr CudaFloat& operator+=(CudaFloat b) { return *this = *this + b; }
  constexpr CudaFloat& operator-=(CudaFloat b) { return *this = *this - b; }
  constexpr CudaFloat& operator*=(CudaFloat b) { return *this = *this * b; }
  constexpr CudaFloat& operator/=(CudaFloat b) { return *this = *this / b; }
  constexpr CudaFloat& operator++() { return *this += CudaFloat(1.0f); }
  friend constexpr bool operator==(CudaFloat a, CudaFloat b) { return float(a) == float(b); }
  friend constexpr bool operator!=(CudaFloat a, CudaFloat b) { return float(a) != float(b); }
  friend constexpr bool operator<(CudaFloat a, CudaFloat b) { return float(a) < float(b); }
  friend constexpr bool operator<=(CudaFloat a, CudaFloat b) { return float(a) <= float(b); }
  friend constexpr bool operator>(CudaFloat a, CudaFloat b) { return float(a) > float(b); }
  friend constexpr bool operator>=(CudaFloat a, CudaFloat b) { return float(a) >= float(b); }

 private:
  Storage value_;
};

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

using __half = yotta::emulator::CudaFloat<yotta::float16>;
using __nv_bfloat16 = yotta::emulator::CudaFloat<yotta::bfloat16>;
YOTTA_VECTOR_2(__half, __half2, 4);
YOTTA_VECTOR_2(__nv_bfloat16, __nv_bfloat162, 4);
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

}  // namespace YOTTA_DEVICE_BUILD

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

template <class T>
concept ShortFloat = std::same_as<T, __half> || std::same_as<T, __nv_bfloat16>;
template <class T>
concept ShortPair = std::same_as<T, __half2> || std::same_as<T, __nv_bfloat162>;

// x without its last digits, the last one 1 if any of them was not 0: rounded to fewer digits, it
// gives what the exact value would.
inline double to_odd(double x, double error) {
  if (error == 0 || !std::isfinite(x)) return x;
  if ((error < 0) == (x > 0)) x = std::nextafter(x, 0.0);
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) | 1);
}
// a b + c, rounded once.
template <ShortFloat T>
T fused(T a, T b, T c) {
  const double product = double{float(a)} * float(b), third = float(c);
  const double sum = product + third, of_third = sum - product;
  const double error = (product - (sum - of_third)) + (third - of_third);
  return T(to_odd(sum, error));
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

inline namespace YOTTA_DEVICE_BUILD {

// ---- Bits and conversions ----
#define YOTTA_SHORT_CONVERSIONS(T, name)                                                    \
  constexpr unsigned short __##name##_as_ushort(T x) { return x.bits(); }                   \
  constexpr short __##name##_as_short(T x) { return static_cast<short>(x.bits()); }         \
  constexpr T __ushort_as_##name(unsigned short x) { return T::from_bits(x); }              \
  constexpr T __short_as_##name(short x) { return T::from_bits(static_cast<uint16_t>(x)); } \
  constexpr T __float2##name(float x) { return x; }                                         \
  constexpr T __float2##name##_rn(float x) { return x; }                                    \
  constexpr T __double2##name(double x) { return x; }                                       \
  constexpr float __##name##2float(T x) { return x; }                                       \
  constexpr T __int2##name##_rn(int x) { return x; }                                        \
  constexpr T __uint2##name##_rn(unsigned x) { return x; }                                  \
  inline int __##name##2int_rn(T x) { return __float2int_rn(x); }                           \
  inline int __##name##2int_rz(T x) { return __float2int_rz(x); }
YOTTA_SHORT_CONVERSIONS(__half, half)
YOTTA_SHORT_CONVERSIONS(__nv_bfloat16, bfloat16)
#undef YOTTA_SHORT_CONVERSIONS

// ---- One number ----
#define YOTTA_SHORT_2(word, expression)              \
  template <yotta::emulator::ShortFloat T>           \
  constexpr T word(T a, std::type_identity_t<T> b) { \
    return expression;                               \
  }
YOTTA_SHORT_2(__hadd, a + b)
YOTTA_SHORT_2(__hsub, a - b)
YOTTA_SHORT_2(__hmul, a* b)
YOTTA_SHORT_2(__hdiv, a / b)
YOTTA_SHORT_2(__hadd_rn, a + b)
YOTTA_SHORT_2(__hsub_rn, a - b)
YOTTA_SHORT_2(__hmul_rn, a* b)
YOTTA_SHORT_2(__hmax, T(std::fmax(float(a), float(b))))
YOTTA_SHORT_2(__hmin, T(std::fmin(float(a), float(b))))
#undef YOTTA_SHORT_2
// Comparisons with NaN are false; those that end in u, unordered, are true.
#define YOTTA_SHORT_COMPARED(word, expression)          \
  template <yotta::emulator::ShortFloat T>              \
  constexpr bool word(T a, std::type_identity_t<T> b) { \
    return expression;                                  \
  }
YOTTA_SHORT_COMPARED(__heq, a == b)
YOTTA_SHORT_COMPARED(__hne, a<b || a> b)
YOTTA_SHORT_COMPARED(__hlt, a < b)
YOTTA_SHORT_COMPARED(__hle, a <= b)
YOTTA_SHORT_COMPARED(__hgt, a > b)
YOTTA_SHORT_COMPARED(__hge, a >= b)
YOTTA_SHORT_COMPARED(__hequ, !(a < b || a > b))
YOTTA_SHORT_COMPARED(__hneu, a != b)
YOTTA_SHORT_COMPARED(__hltu, !(a >= b))
YOTTA_SHORT_COMPARED(__hleu, !(a > b))
YOTTA_SHORT_COMPARED(__hgtu, !(a <= b))
YOTTA_SHORT_COMPARED(__hgeu, !(a < b))
#undef YOTTA_SHORT_COMPARED
#define YOTTA_SHORT_1(word, pair_word, expression) \
  template <yotta::emulator::ShortFloat T>         \
  T word(T a) {                                    \
    return T(expression);                          \
  }                                                \
  template <yotta::emulator::ShortPair T>          \
  T pair_word(const T& a) {                        \
    return {word(a.x), word(a.y)};                 \
  }
YOTTA_SHORT_1(__hneg, __hneg2, -a)
YOTTA_SHORT_1(__habs, __habs2, std::fabs(float(a)))
YOTTA_SHORT_1(hexp, h2exp, std::exp(float(a)))
YOTTA_SHORT_1(hexp2, h2exp2, std::exp2(float(a)))
YOTTA_SHORT_1(hlog, h2log, std::log(float(a)))
YOTTA_SHORT_1(hlog2, h2log2, std::log2(float(a)))
YOTTA_SHORT_1(hsqrt, h2sqrt, std::sqrt(float(a)))
YOTTA_SHORT_1(hrsqrt, h2rsqrt, 1.0f / std::sqrt(float(a)))
YOTTA_SHORT_1(hrcp, h2rcp, 1.0f / float(a))
YOTTA_SHORT_1(hsin, h2sin, std::sin(float(a)))
YOTTA_SHORT_1(hcos, h2cos, std::cos(float(a)))
YOTTA_SHORT_1(hfloor, h2floor, std::floor(float(a)))
YOTTA_SHORT_1(hceil, h2ceil, std::ceil(float(a)))
YOTTA_SHORT_1(htrunc, h2trunc, std::trunc(float(a)))
YOTTA_SHORT_1(hrint, h2rint, std::nearbyint(float(a)))
#undef YOTTA_SHORT_1
template <yotta::emulator::ShortFloat T>
T __hfma(T a, std::type_identity_t<T> b, std::type_identity_t<T> c) {
  return yotta::emulator::fused<T>(a, b, c);
}
template <yotta::emulator::ShortFloat T>
bool __hisnan(T a) {
  return std::isnan(float(a));
}
template <yotta::emulator::ShortFloat T>
int __hisinf(T a) {
  return std::isinf(float(a)) ? (float(a) > 0 ? 1 : -1) : 0;
}

// ---- Two numbers ----
#define YOTTA_PAIR_2(word, one)                          \
  template <yotta::emulator::ShortPair T>                \
  T word(const T& a, const std::type_identity_t<T>& b) { \
    return {one(a.x, b.x), one(a.y, b.y)};               \
  }
YOTTA_PAIR_2(__hadd2, __hadd)
YOTTA_PAIR_2(__hsub2, __hsub)
YOTTA_PAIR_2(__hmul2, __hmul)
YOTTA_PAIR_2(__h2div, __hdiv)
YOTTA_PAIR_2(__hmax2, __hmax)
YOTTA_PAIR_2(__hmin2, __hmin)
YOTTA_PAIR_2(__heq2, __heq)
YOTTA_PAIR_2(__hne2, __hne)
YOTTA_PAIR_2(__hlt2, __hlt)
YOTTA_PAIR_2(__hle2, __hle)
YOTTA_PAIR_2(__hgt2, __hgt)
YOTTA_PAIR_2(__hge2, __hge)
YOTTA_PAIR_2(__hequ2, __hequ)
YOTTA_PAIR_2(__hneu2, __hneu)
YOTTA_PAIR_2(__hltu2, __hltu)
YOTTA_PAIR_2(__hleu2, __hleu)
YOTTA_PAIR_2(__hgtu2, __hgtu)
YOTTA_PAIR_2(__hgeu2, __hgeu)
#undef YOTTA_PAIR_2
template <yotta::emulator::ShortPair T>
T __hfma2(const T& a, const std::type_identity_t<T>& b, const std::type_identity_t<T>& c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
#define YOTTA_PAIR_OPERATOR(op, word)     \
  template <yotta::emulator::ShortPair T> \
  T operator op(const T& a, const T& b) { \
    return word(a, b);                    \
  }                                       \
  template <yotta::emulator::ShortPair T> \
  T& operator op##=(T& a, const T& b) {   \
    return a = word(a, b);                \
  }
YOTTA_PAIR_OPERATOR(+, __hadd2)
YOTTA_PAIR_OPERATOR(-, __hsub2)
YOTTA_PAIR_OPERATOR(*, __hmul2)
YOTTA_PAIR_OPERATOR(/, __h2div)
#undef YOTTA_PAIR_OPERATOR
template <yotta::emulator::ShortPair T>
float __low2float(const T& v) {
  return v.x;
}
template <yotta::emulator::ShortPair T>
float __high2float(const T& v) {
  return v.y;
}

constexpr __half2 make_half2(__half x, __half y) { return {x, y}; }
constexpr __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
constexpr __half2 __halves2half2(__half x, __half y) { return {x, y}; }
constexpr __half2 __half2half2(__half x) { return {x, x}; }
constexpr __half2 __float2half2_rn(float x) { return {x, x}; }
constexpr __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
constexpr __half __low2half(const __half2& v) { return v.x; }
constexpr __half __high2half(const __half2& v) { return v.y; }
inline __half2 __lows2half2(const __half2& a, const __half2& b) { return {a.x, b.x}; }
inline __half2 __highs2half2(const __half2& a, const __half2& b) { return {a.y, b.y}; }
inline __half2 __lowhigh2highlow(const __half2& a) { return {a.y, a.x}; }
inline __half2 __float22half2_rn(const float2& v) { return {v.x, v.y}; }
inline float2 __half22float2(const __half2& v) { return {float(v.x), float(v.y)}; }
constexpr __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
constexpr __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
constexpr __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
constexpr __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
constexpr __nv_bfloat16 __low2bfloat16(const __nv_bfloat162& v) { return v.x; }
constexpr __nv_bfloat16 __high2bfloat16(const __nv_bfloat162& v) { return v.y; }
inline __nv_bfloat162 __float22bfloat162_rn(const float2& v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(const __nv_bfloat162& v) { return {float(v.x), float(v.y)}; }

}  // namespace YOTTA_DEVICE_BUILD

#endif
