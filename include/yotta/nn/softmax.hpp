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
YOTTA_API Tensor softmax(const Tensor& x, Where where = Where::current());

// dx (N, C) from dy and the *output* y.
YOTTA_API Tensor softmax_backward(const Tensor& dy, const Tensor& y,
                                  Where where = Where::current());

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

#if YOTTA_BODIES_OF(nn)

Tensor softmax(const Tensor& x, Where where) {
  expect_dims("softmax", "x", x, 2, "(N, C)", where);
  charge(softmax_cost(x.dtype(), x.numel()));
  Tensor y = empty_like(x, where);
  const Device device = x.device();
  if (device == Device::meta) return y;
  visit_activation(x.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::SoftmaxRow<Number> body{x.dim(1), x.address<Number>(device, where),
                                          y.address<Number>(device)};
    run_rows<Number>("softmax", device, x.dim(0), x.dim(1), body, where);
  });
  return y;
}

Tensor softmax_backward(const Tensor& dy, const Tensor& y, Where where) {
  expect_dims("softmax_backward", "y", y, 2, "(N, C)", where);
  expect_same("softmax_backward", "dy", dy, "y", y, where);
  charge(softmax_backward_cost(y.dtype(), y.numel()));
  Tensor dx = empty_like(y, where);
  const Device device = y.device();
  if (device == Device::meta) return dx;
  visit_activation(y.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::SoftmaxBackwardRow<Number> body{y.dim(1), dy.address<Number>(device, where),
                                                  y.address<Number>(device, where),
                                                  dx.address<Number>(device)};
    run_rows<Number>("softmax_backward", device, y.dim(0), y.dim(1), body, where);
  });
  return dx;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
