// Element-wise ops: every output number depends on the input numbers at the same place.
//
//     x  [ . . . . | . . . . ]      thread 0 | thread 1        no number is used twice: 1 to 20 FLOPs
//     y  [ . . . . | . . . . ]                                 for 8 to 16 bytes: memory sets the speed
//
//     op              formula                              backward
//     add             c = a + b                            da = db = dc          (no work: no function)
//     scale           y = factor x                         dx = factor dy
//     multiply        c = a b                              da = dc b, db = dc a  (multiply again)
//     add_bias        columns.hpp
//     activations     gelu, silu, swiglu: activations.hpp
//
// Contract: f32 or f64, equal shapes and types, results in new tensors except for the *_into forms.
// Letters: N rows (tokens), C columns (channels).
#pragma once

#include "yotta/nn/op.hpp"
#include "yotta/nn/vectors.hpp"

namespace yotta {

namespace detail {

// y[i] = f(a[i], b[i], ...) on Vectors, over the threads of this rank. y may be one of the inputs.
template <class Real, class F, class... In>
void map(int64_t n, Real* y, F f, const In*... in) {
  parallel_for(n, elements_per_thread, [&](int64_t begin, int64_t end) {
    for_lanes<Real>(end - begin, [&](int64_t i, auto count) {
      store(y + begin + i, f(load(in + begin + i, count)...), count);
    });
  });
}

// A new tensor f(a, b), f a function of two Vectors.
template <class F>
Tensor combine(const OpCost& cost, const Tensor& a, const Tensor& b, F f, Where where) {
  expect_same(cost.name, "a", a, "b", b, where);
  charge(cost);
  Tensor c = empty_like(a, where);
  if (a.device() == Device::meta) return c;
  visit_real(a.dtype(), where, [&]<class Real>(Type<Real>) {
    map(a.numel(), c.data<Real>(), f, a.data<Real>(where), b.data<Real>(where));
  });
  return c;
}

}  // namespace detail

constexpr OpCost add_cost(DType dtype, int64_t n) {
  return elementwise_cost("add", dtype, n, 1, 2, 1);
}
constexpr OpCost scale_cost(DType dtype, int64_t n) {
  return elementwise_cost("scale", dtype, n, 1, 1, 1);
}
constexpr OpCost multiply_cost(DType dtype, int64_t n) {
  return elementwise_cost("multiply", dtype, n, 1, 2, 1);
}

// a += b, both of any shape.
inline void add_into(Tensor& a, const Tensor& b, Where where = Where::current()) {
  expect_same("add_into", "a", a, "b", b, where);
  charge(add_cost(a.dtype(), a.numel()));
  if (a.device() == Device::meta) return;
  visit_real(a.dtype(), where, [&]<class Real>(Type<Real>) {
    using V = Vector<Real>;
    Real* to = a.data<Real>(where);
    detail::map(
        a.numel(), to, [](V p, V q) { return p + q; }, to, b.data<Real>(where));
  });
}

// a + b, both of any shape.
inline Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current()) {
  const auto sum = [](auto p, auto q) { return p + q; };
  return detail::combine(add_cost(a.dtype(), a.numel()), a, b, sum, where);
}

// factor * x; its backward is scale(dy, factor).
inline Tensor scale(const Tensor& x, double factor, Where where = Where::current()) {
  charge(scale_cost(x.dtype(), x.numel()));
  Tensor y = empty_like(x, where);
  if (x.device() == Device::meta) return y;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real by = static_cast<Real>(factor);
    detail::map(
        x.numel(), y.data<Real>(), [by](Vector<Real> v) { return v * by; }, x.data<Real>(where));
  });
  return y;
}

// a * b element by element; its backward is multiply(dc, b) and multiply(dc, a).
inline Tensor multiply(const Tensor& a, const Tensor& b, Where where = Where::current()) {
  const auto product = [](auto p, auto q) { return p * q; };
  return detail::combine(multiply_cost(a.dtype(), a.numel()), a, b, product, where);
}

}  // namespace yotta
