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

#include "yotta/nn/cpu/body.hpp"

namespace yotta {

namespace detail {

// y[i] = f(in[0][i], in[1][i], ...). y may be one of the inputs.
template <class Real, class F, int inputs>
struct Map {
  Real* y;
  F f;
  const Real* in[inputs];
  template <class Count>
  YOTTA_BODY void operator()(int64_t i, Count count) const {
    if constexpr (inputs == 1)
      store(y + i, f(load(in[0] + i, count)), count);
    else
      store(y + i, f(load(in[0] + i, count), load(in[1] + i, count)), count);
  }
};

// y = f(in, ...), element by element; all are alike.
template <class F, class... In>
void map_into(const char* operation, Tensor& y, F f, Where where, const In&... in) {
  const Device device = y.device();
  if (device == Device::meta) return;
  visit_real(y.dtype(), where, [&]<class Real>(Type<Real>) {
    const Map<Real, F, sizeof...(In)> body{
        y.address<Real>(device, where), f, {in.template address<Real>(device, where)...}};
    run_elementwise<Real>(operation, device, y.numel(), body, where);
  });
}
// The same into a new tensor.
template <class F, class... In>
Tensor map(const OpCost& cost, F f, Where where, const Tensor& first, const In&... others) {
  charge(cost);
  Tensor y = empty_like(first, where);
  map_into(cost.name, y, f, where, first, others...);
  return y;
}

}  // namespace detail

// What the maps do with a Vector on the CPU and with a number in a kernel.
struct Plus {
  template <class V>
  YOTTA_BODY V operator()(V p, V q) const {
    return p + q;
  }
};
struct Times {
  template <class V>
  YOTTA_BODY V operator()(V p, V q) const {
    return p * q;
  }
};
struct ScaleBy {
  double factor;
  template <class V>
  YOTTA_BODY V operator()(V v) const {
    return v * static_cast<ElementOf<V>>(factor);
  }
};

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
  detail::map_into("add_into", a, Plus{}, where, a, b);
}

// a + b, both of any shape.
inline Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current()) {
  expect_same("add", "a", a, "b", b, where);
  return detail::map(add_cost(a.dtype(), a.numel()), Plus{}, where, a, b);
}

// factor * x; its backward is scale(dy, factor).
inline Tensor scale(const Tensor& x, double factor, Where where = Where::current()) {
  return detail::map(scale_cost(x.dtype(), x.numel()), ScaleBy{factor}, where, x);
}

// a * b element by element; its backward is multiply(dc, b) and multiply(dc, a).
inline Tensor multiply(const Tensor& a, const Tensor& b, Where where = Where::current()) {
  expect_same("multiply", "a", a, "b", b, where);
  return detail::map(multiply_cost(a.dtype(), a.numel()), Times{}, where, a, b);
}

}  // namespace yotta
