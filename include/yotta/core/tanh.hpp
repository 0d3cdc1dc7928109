// tanh without branches and without a call, so that a compiler vectorises the loop that it is in.
// The library's own takes one number at a time: for a soft cap on attention's scores that is more
// work than both of its products (nn/flex_attention.hpp).
//
//     tanh |x| = t / (t + 2)       t = e^u - 1,  u = 2 |x|
//     e^u = 2^n e^r                n = round(u / ln 2),  |r| <= ln 2 / 2
//     t = 2^n q + (2^n - 1)        q = e^r - 1 = r + r^2/2! + ... + r^D/D!
//
// q, and not e^r, is summed up: near zero n is 0 and t is q, so that no digit cancels. f32: D = 7,
// f64: D = 13, as in nn/cpu/math.hpp, which does the same for exp with vectors of its own.
// Contract: within three units in the last place; NaN stays NaN; -0 stays -0.
// Reference: Muller, "Elementary Functions: Algorithms and Implementation", chapter 11.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "yotta/core/system/accelerator.hpp"

namespace yotta {

template <class Real>
requires std::is_floating_point_v<Real>
[[gnu::always_inline]] YOTTA_HOST_DEVICE inline Real tanh_of(Real x) {
  constexpr bool f32 = sizeof(Real) == 4;
  using Bits = std::conditional_t<f32, uint32_t, uint64_t>;
  constexpr double factorial[] = {1,    1,     2,      6,       24,       120,       720,
                                  5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800};
  constexpr int degree = f32 ? 7 : 13, mantissa_bits = f32 ? 23 : 52;
  constexpr Real most = static_cast<Real>(f32 ? 20 : 40);  // from here on tanh is 1
  // Adding it rounds to a whole number, and leaves the exponent of 2^n in the low bits.
  constexpr Real round = static_cast<Real>(f32 ? 0x1.8p23 + 127 : 0x1.8p52 + 1023);
  Real u = 2 * std::fabs(x);
  u = u > most ? most : u;
  const Real rounded = u * static_cast<Real>(1.44269504088896340736) + round;
  const Real n = rounded - round;
  const Real r =
      (u - n * static_cast<Real>(0x1.62e4p-1)) - n * static_cast<Real>(1.42860682030941723212e-6);
  Real q = static_cast<Real>(1 / factorial[degree]);
#pragma GCC unroll 16
  for (int k = degree - 1; k > 0; --k) q = q * r + static_cast<Real>(1 / factorial[k]);
  Bits bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  bits <<= mantissa_bits;
  Real scale;
  std::memcpy(&scale, &bits, sizeof bits);
  const Real t = scale * (q * r) + (scale - 1);
  return std::copysign(t / (t + 2), x);
}

}  // namespace yotta
