// Dual numbers: a function's value and its derivatives from one run of its code.
//
//     score = 2 + 1 e        e * e = 0: only first derivatives are kept
//     score * score          (2 + 1 e) (2 + 1 e) = 4 + 4 e        value 4, derivative 4
//     tanh(score)            tanh(2) + (1 - tanh(2)^2) e
//
// Each operation applies the chain rule to what it gets, so that ordinary code, called with a Dual
// in place of a number, also gives the derivative by the score. Nobody writes that derivative.
//
// A function may also read *captured* numbers, a few of many: one slope of H, one entry of a table.
// A Dual therefore keeps, beside the derivative by the score, a short list: the index of each
// captured number that went in, and the derivative by it.
//
//     score - slope[5] * 3   value 2 - 3 slope[5],  by the score 1,  by captured number 5: -3
//
// Cost: an operation on two Duals that depend on n captured numbers is 3 + 3 n multiplications and
// additions, in registers. Reverse mode (a tape) would cost less for a function of many inputs;
// here there are one score and one or two captured numbers.
// Contract: K is the most captured numbers that one result depends on; 0: only the score counts. A
// Dual of more says so (`overflowed()`), and its list is not to be used.
// Reference: Griewank and Walther, "Evaluating Derivatives", chapter 3.
#pragma once

#include <cmath>
#include <type_traits>

#include "yotta/core/system/accelerator.hpp"
#include "yotta/core/tanh.hpp"
#include "yotta/device/emulator/device_build.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A captured number, as a function reads it. It becomes a number or a Dual only when asked to:
// Score(slopes[h]), so that no derivative is lost on the way.
template <class Number>
struct CapturedNumber {
  Number value;
  int index;  // among all captured numbers of the function
  template <class Real>
  requires std::is_arithmetic_v<Real> YOTTA_HOST_DEVICE explicit operator Real() const {
    return static_cast<Real>(value);
  }
};

// An array of captured numbers; the first of them has index `first`.
template <class Number>
struct Captured {
  const Number* values = nullptr;
  int first = 0;
  YOTTA_HOST_DEVICE CapturedNumber<Number> operator[](int i) const {
    return {values[i], first + i};
  }
};

template <class Real, int K = 0>
struct Dual {
  Real value = 0;
  Real slope = 0;                    // the derivative by the score
  int used = 0;                      // captured numbers that this depends on:
  int index[K > 0 ? K : 1] = {};     // which ones,
  Real partial[K > 0 ? K : 1] = {};  // and the derivative by each

  Dual() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> YOTTA_HOST_DEVICE Dual(Number constant)
      : value(static_cast<Real>(constant)) {}
  template <class Number>
  YOTTA_HOST_DEVICE explicit Dual(const CapturedNumber<Number>& read)
      : value(static_cast<Real>(read.value)) {
    add_partial(read.index, Real{1});
  }
  YOTTA_HOST_DEVICE static Dual score(Real value) {
    Dual x(value);
    x.slope = 1;
    return x;
  }
  YOTTA_HOST_DEVICE bool overflowed() const { return used > K; }

  // f(a, b), of which the derivatives by a and b are given.
  YOTTA_HOST_DEVICE static Dual chain(Real value, const Dual& a, Real by_a, const Dual& b,
                                      Real by_b) {
    Dual y = chain(value, a, by_a);
    y.slope += by_b * b.slope;
    for (int i = 0; i < b.used && !b.overflowed(); ++i)
      y.add_partial(b.index[i], by_b * b.partial[i]);
    if (b.overflowed()) y.used = K + 1;
    return y;
  }
  YOTTA_HOST_DEVICE static Dual chain(Real value, const Dual& a, Real by_a) {
    Dual y = a;
    y.value = value;
    y.slope *= by_a;
    for (int i = 0; i < a.used && !a.overflowed(); ++i) y.partial[i] *= by_a;
    return y;
  }

  YOTTA_HOST_DEVICE friend Dual operator+(const Dual& a, const Dual& b) {
    return chain(a.value + b.value, a, 1, b, 1);
  }
  YOTTA_HOST_DEVICE friend Dual operator-(const Dual& a, const Dual& b) {
    return chain(a.value - b.value, a, 1, b, -1);
  }
  YOTTA_HOST_DEVICE friend Dual operator*(const Dual& a, const Dual& b) {
    return chain(a.value * b.value, a, b.value, b, a.value);
  }
  YOTTA_HOST_DEVICE friend Dual operator/(const Dual& a, const Dual& b) {
    const Real y = a.value / b.value;
    return chain(y, a, 1 / b.value, b, -y / b.value);
  }
  YOTTA_HOST_DEVICE friend Dual operator-(const Dual& a) { return chain(-a.value, a, -1); }
  YOTTA_HOST_DEVICE friend Dual tanh(const Dual& a) { return of_tanh(std::tanh(a.value), a); }
  YOTTA_HOST_DEVICE friend Dual tanh_of(const Dual& a) {
    return of_tanh(yotta::tanh_of(a.value), a);
  }
  YOTTA_HOST_DEVICE friend Dual exp(const Dual& a) {
    const Real y = std::exp(a.value);
    return chain(y, a, y);
  }
  // Which branch a function takes depends on values.
  YOTTA_HOST_DEVICE friend bool operator<(const Dual& a, const Dual& b) {
    return a.value < b.value;
  }
  YOTTA_HOST_DEVICE friend bool operator>(const Dual& a, const Dual& b) {
    return a.value > b.value;
  }

 private:
  YOTTA_HOST_DEVICE static Dual of_tanh(Real y, const Dual& a) { return chain(y, a, 1 - y * y); }
  YOTTA_HOST_DEVICE void add_partial(int which, Real by_it) {
    if constexpr (K > 0) {
      int i = 0;
      while (i < used && i < K && index[i] != which) ++i;
      if (i < K) {
        index[i] = which;
        partial[i] += by_it;
      }
      if (i == used || i == K) used = i + 1;
    }
  }
};

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
