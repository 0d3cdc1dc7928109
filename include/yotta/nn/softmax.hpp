// Softmax: a row of scores becomes a row of probabilities.
//
//     x  [  2    1    -1  ]     m = max x              the shift by m changes nothing, e^m cancels;
//     y  [ .705 .259 .035 ]     y = e^(x-m) / sum      without it e^x overflows f32 at x = 89
//
// Backward: dy_j/dx_i = y_j (1[i=j] - y_i), so with g = dy
// dx_i = sum_j g_j dy_j/dx_i = y_i (g_i - sum_j g_j y_j).
// Only y is kept.
//
// Cost: 5 FLOPs per number (largest, subtract, exp, sum, multiply) for 8 bytes: memory-bound.
// Contract: a NaN or a row of -infinity gives NaN. Letters: N rows, C columns.
#pragma once

#include "yotta/nn/cpu/body.hpp"
#include "yotta/nn/cpu/math.hpp"

namespace yotta {

constexpr OpCost softmax_cost(DType dtype, int64_t n) {
  return elementwise_cost("softmax", dtype, n, 5, 1, 1);
}
constexpr OpCost softmax_backward_cost(DType dtype, int64_t n) {
  return elementwise_cost("softmax_backward", dtype, n, 4, 2, 1);
}

// Softmax of each row of x (N, C).
Tensor softmax(const Tensor& x, Where where = Where::current());

// dx (N, C) from dy and the *output* y.
Tensor softmax_backward(const Tensor& dy, const Tensor& y, Where where = Where::current());

namespace detail {

// y = e^(factor x - shift), returns the sum of y. y may be x.
template <class Real>
Real exp_row(const Real* x, int64_t n, Real factor, Real shift, Real* y) {
  return sum_lanes<Real>(n, [&](int64_t i, auto count) {
    const Vector<Real> e = vector_exp<Real>(load(x + i, count) * factor - shift);
    store(y + i, e, count);
    return e;
  });
}

template <class Real>
void scale_row(Real* x, int64_t n, Real factor) {
  for_lanes<Real>(n, [&](int64_t i, auto count) {
    store(x + i, load(static_cast<const Real*>(x) + i, count) * factor, count);
  });
}

// y = softmax(factor x); y may be x.
template <class Real>
void softmax_row(const Real* x, int64_t n, Real factor, Real* y) {
  const Real sum = exp_row(x, n, factor, factor * largest(x, n), y);
  scale_row(y, n, Real{1} / sum);
}

// dx = factor y (dy - sum of dy y); dx may be dy.
template <class Real, class Number>
void softmax_backward_row(const Real* dy, const Number* y, int64_t n, Real factor, Real* dx) {
  const Real along = sum_lanes<Real>(
      n, [&](int64_t i, auto count) { return load(dy + i, count) * load(y + i, count); });
  for_lanes<Real>(n, [&](int64_t i, auto count) {
    store(dx + i, factor * load(y + i, count) * (load(dy + i, count) - along), count);
  });
}

// One row each: bodies for run_rows.
template <class In, class Out = In>
struct SoftmaxRow {
  int64_t C;
  const In* x;
  Out* y;  // may be x
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const In* row = x + n * C;
    const auto most = team.largest(row, C);
    const auto power = [&](int64_t c, auto count) {
      return exponential(load(row + c, count) - most);
    };
    const auto factor = Computed<In>{1} / team.sum(C, power);
    team.each(
        C, [&](int64_t c, auto count) { store(y + n * C + c, power(c, count) * factor, count); });
  }
};

template <class Gradient, class Out = Gradient>
struct SoftmaxBackwardRow {
  int64_t C;
  const Gradient* dy;
  const Out* y;
  Gradient* dx;  // may be dy
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const Gradient* d = dy + n * C;
    const Out* p = y + n * C;
    const auto along =
        team.sum(C, [&](int64_t c, auto count) { return load(d + c, count) * load(p + c, count); });
    team.each(C, [&](int64_t c, auto count) {
      store(dx + n * C + c, load(p + c, count) * (load(d + c, count) - along), count);
    });
  }
};

}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/softmax.ipp"
#endif
