// Element-wise ops: every output number depends on the input numbers at the same place.
//
//    x  [ . . . . | . . . . ]      thread 0 | thread 1     each number is used once: 1 to 20 FLOPs
//    y  [ . . . . | . . . . ]                              for 8 to 16 bytes: memory sets the speed
//
//    op              formula                              backward
//    add             c = a + b                            da = db = dc       (no work: no function)
//    scale           y = factor x                         dx = factor dy
//    multiply        c = a b                              da = dc b, db = dc a  (multiply again)
//    add_bias        y = x + b in each row                db += column sums of dy
//    activations     gelu, silu, swiglu: activations.hpp
//
// Contract: f32, f64 or bf16, equal shapes and types, results in new tensors except for the *_into
// forms.
// Letters: N rows (tokens), C columns (channels).
#pragma once

#include "yotta/nn/cpu/body.hpp"

namespace yotta {

constexpr OpCost add_cost(DType dtype, int64_t n) {
  return elementwise_cost("add", dtype, n, 1, 2, 1);
}
constexpr OpCost scale_cost(DType dtype, int64_t n) {
  return elementwise_cost("scale", dtype, n, 1, 1, 1);
}
constexpr OpCost multiply_cost(DType dtype, int64_t n) {
  return elementwise_cost("multiply", dtype, n, 1, 2, 1);
}

// Of N rows and C columns.
constexpr OpCost add_bias_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("add_bias", dtype, N * C, N * C + C, N * C);
}
constexpr OpCost bias_backward_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("bias_backward", dtype, N * C, N * C + C, C);
}

// a += b, both of any shape.
void add_into(Tensor& a, const Tensor& b, Where where = Where::current());

// a + b, both of any shape.
Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());

// factor * x; its backward is scale(dy, factor).
Tensor scale(const Tensor& x, double factor, Where where = Where::current());

// a * b element by element; its backward is multiply(dc, b) and multiply(dc, a).
Tensor multiply(const Tensor& a, const Tensor& b, Where where = Where::current());

// x + b in every row; x (N, C), b (C). Its dx is dy itself.
Tensor add_bias(const Tensor& x, const Tensor& bias, Where where = Where::current());

// dbias (C) += the column sums of dy (N, C); dbias is f32 (f64).
void bias_backward(const Tensor& dy, Tensor& dbias, Where where = Where::current());

namespace detail {

// y[i] = f(in[0][i], in[1][i], ...). y may be one of the inputs.
template <class Number, class F, int inputs>
struct Map {
  Number* y;
  F f;
  const Number* in[inputs];
  template <class Count>
  YOTTA_BODY void operator()(int64_t i, Count count) const {
    if constexpr (inputs == 1)
      store(y + i, f(load(in[0] + i, count)), count);
    else
      store(y + i, f(load(in[0] + i, count), load(in[1] + i, count)), count);
  }
};

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

namespace detail {

template <class Number>
struct AddBias {
  int64_t C;
  const Number *x, *bias;
  Number* y;
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    team.each(C, [&](int64_t c, auto count) {
      store(y + n * C + c, load(x + n * C + c, count) + load(bias + c, count), count);
    });
  }
};

template <class Number>
struct BiasTerm {
  int64_t C;
  const Number* dy;
  template <class Count>
  YOTTA_BODY auto operator()(int64_t n, int64_t c, Count count) const {
    return std::array{load(dy + n * C + c, count)};
  }
};

// y = f(in, ...), element by element; all are alike.
template <class F, class... In>
void map_into(const char* operation, Tensor& y, F f, Where where, const In&... in) {
  const Device device = y.device();
  if (device == Device::meta) return;
  visit_activation(y.dtype(), where, [&]<class Number>(Type<Number>) {
    const Map<Number, F, sizeof...(In)> body{
        y.address<Number>(device, where), f, {in.template address<Number>(device, where)...}};
    run_elementwise<Number>(operation, device, y.numel(), body, where);
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

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/elementwise.ipp"
#endif
