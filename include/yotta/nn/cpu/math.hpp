// exp and the logistic function on whole vectors: what softmax, gelu and silu spend their time on.
//
// The library's exp takes one number at a time, with branches; this one takes a register full:
//
//     e^x = 2^n e^r      n = round(x / ln 2),  |r| <= ln 2 / 2 = 0.35
//     e^r = 1 + r + r^2/2! + ... + r^D/D!      Taylor: the rest is below r^(D+1)/(D+1)!
//
//     f32: D = 7,  rest 5e-9,  relative error about 1e-7    (half a unit in the last place is 6e-8)
//     f64: D = 13, rest 4e-18, relative error about 3e-16
//
// n comes without a branch: adding 1.5 * 2^23 to a small f32 leaves no room for a fraction, so the
// sum is rounded and its low bits hold n. 2^n is made by writing n into the exponent bits; what
// they count from is added to 1.5 * 2^23 beforehand. r is x - n ln 2 with ln 2 in two pieces, the
// first so short that n times it is exact. Results too small for a normal number are 0, too large
// ones infinity, NaN stays NaN. Reference: Muller, "Elementary Functions: Algorithms and
// Implementation", chapter 11.
#pragma once

#include <cmath>

#include "yotta/core/system/accelerator.hpp"
#include "yotta/nn/cpu/vectors.hpp"

namespace yotta {

namespace detail {

template <class Real>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Bits = uint32_t;
  static constexpr int degree = 7, mantissa_bits = 23;
  static constexpr float round = 0x1.8p23f + 126, lowest = -87.5f, highest = 89.0f;
};
template <>
struct ExpConstants<double> {
  using Bits = uint64_t;
  static constexpr int degree = 13, mantissa_bits = 52;
  static constexpr double round = 0x1.8p52 + 1022, lowest = -708.5, highest = 710.0;
};

constexpr double factorial(int n) { return n <= 1 ? 1.0 : n * factorial(n - 1); }

// Twice 1/k! + r/(k+1)! + r^2/(k+2)! + ... up to the degree, by Horner's rule.
template <class Real, int k>
[[gnu::always_inline]] inline Vector<Real> twice_taylor_from(Vector<Real> r) {
  constexpr Real coefficient = static_cast<Real>(2.0 / factorial(k));
  if constexpr (k == ExpConstants<Real>::degree)
    return in_all_lanes(coefficient);
  else
    return twice_taylor_from<Real, k + 1>(r) * r + coefficient;
}

}  // namespace detail

// e^x in every lane.
template <class Real>
[[gnu::always_inline]] inline Vector<Real> vector_exp(Vector<Real> x) {
  using Constants = detail::ExpConstants<Real>;
  using Bits = Vector<typename Constants::Bits>;
  constexpr Real log2_e = static_cast<Real>(1.44269504088896340736);
  constexpr Real ln2_high = static_cast<Real>(0x1.62e4p-1);  // 15 bits
  constexpr Real ln2_low = static_cast<Real>(1.42860682030941723212e-6);

  x = x < Constants::lowest ? in_all_lanes(Constants::lowest) : x;
  x = x > Constants::highest ? in_all_lanes(Constants::highest) : x;
  const Vector<Real> rounded = x * log2_e + Constants::round;
  const Vector<Real> n = rounded - Constants::round;
  const Vector<Real> r = (x - n * ln2_high) - n * ln2_low;
  // The low bits of `rounded` are n + 126, in f64 n + 1022: the exponent of 2^(n-1), so that n =
  // 128 fits; n = -126 gives zero.
  const Vector<Real> half_scale = (Vector<Real>)((Bits)rounded << Constants::mantissa_bits);
  return detail::twice_taylor_from<Real, 0>(r) * half_scale;
}

// The square root of every lane, rounded as std::sqrt does. Since that may set errno, compilers do
// not make one instruction of a loop over it. Here they are told which one to use.
template <class Real>
[[gnu::always_inline]] inline Vector<Real> vector_sqrt(Vector<Real> x) {
#if defined(__clang__) && __clang_major__ >= 17 && !defined(__CUDACC__)
  return __builtin_elementwise_sqrt(x);
#elif defined(__AVX512F__) && !defined(__clang__) && !defined(__CUDACC__)
  if constexpr (sizeof(Real) == 4)
    return __builtin_ia32_sqrtps512_mask(x, x, -1, 4);  // all lanes, rounded as usual
  else
    return __builtin_ia32_sqrtpd512_mask(x, x, -1, 4);
#elif defined(__AVX2__) && !defined(__clang__) && !defined(__CUDACC__)
  if constexpr (sizeof(Real) == 4)
    return __builtin_ia32_sqrtps256(x);
  else
    return __builtin_ia32_sqrtpd256(x);
#else
  Real lane[lane_count<Real>];
  std::memcpy(lane, &x, sizeof x);
  for (Real& each : lane) each = std::sqrt(each);
  std::memcpy(&x, lane, sizeof x);
  return x;
#endif
}

// The same for bodies, which have a Vector on the CPU and a number in a kernel.
template <class V>
YOTTA_BODY V exponential(V x) {
  if constexpr (std::is_arithmetic_v<V>)
    return std::exp(x);
  else
    return vector_exp<ElementOf<V>>(x);
}
template <class V>
YOTTA_BODY V square_root(V x) {
  if constexpr (std::is_arithmetic_v<V>)
    return std::sqrt(x);
  else
    return vector_sqrt<ElementOf<V>>(x);
}
// 1 / (1 + e^-x): the logistic function. 1 + tanh(u) is twice logistic(2u).
template <class V>
YOTTA_BODY V logistic(V x) {
  constexpr ElementOf<V> one = 1;
  return one / (one + exponential(-x));
}

}  // namespace yotta
