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
YOTTA_API void add_into(Tensor& a, const Tensor& b, Where where = Where::current());

// a + b, both of any shape.
YOTTA_API Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());

// factor * x; its backward is scale(dy, factor).
YOTTA_API Tensor scale(const Tensor& x, double factor, Where where = Where::current());

// a * b element by element; its backward is multiply(dc, b) and multiply(dc, a).
YOTTA_API Tensor multiply(const Tensor& a, const Tensor& b, Where where = Where::current());

// x + b in every row; x (N, C), b (C). Its dx is dy itself.
YOTTA_API Tensor add_bias(const Tensor& x, const Tensor& bias, Where where = Where::current());

// dbias (C) += the column sums of dy (N, C); dbias is f32 (f64).
YOTTA_API void bias_backward(const Tensor& dy, Tensor& dbias, Where where = Where::current());

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

#if YOTTA_BODIES_OF(nn_linear)

void add_into(Tensor& a, const Tensor& b, Where where) {
  expect_same("add_into", "a", a, "b", b, where);
  charge(add_cost(a.dtype(), a.numel()));
  detail::map_into("add_into", a, Plus{}, where, a, b);
}

Tensor add(const Tensor& a, const Tensor& b, Where where) {
  expect_same("add", "a", a, "b", b, where);
  return detail::map(add_cost(a.dtype(), a.numel()), Plus{}, where, a, b);
}

Tensor scale(const Tensor& x, double factor, Where where) {
  return detail::map(scale_cost(x.dtype(), x.numel()), ScaleBy{factor}, where, x);
}

Tensor multiply(const Tensor& a, const Tensor& b, Where where) {
  expect_same("multiply", "a", a, "b", b, where);
  return detail::map(multiply_cost(a.dtype(), a.numel()), Times{}, where, a, b);
}

Tensor add_bias(const Tensor& x, const Tensor& bias, Where where) {
  expect_dims("add_bias", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("add_bias", "bias", bias, {C}, where);
  charge(add_bias_cost(x.dtype(), N, C));
  Tensor y = empty_like(x, where);
  const Device device = x.device();
  if (device == Device::meta) return y;
  visit_activation(x.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::AddBias<Number> body{C, x.address<Number>(device, where),
                                       bias.address<Number>(device, where),
                                       y.address<Number>(device)};
    run_rows<Number>("add_bias", device, N, C, body, where);
  });
  return y;
}

void bias_backward(const Tensor& dy, Tensor& dbias, Where where) {
  expect_dims("bias_backward", "dy", dy, 2, "(N, C)", where);
  const int64_t N = dy.dim(0), C = dy.dim(1);
  expect_shape("bias_backward", "dbias", dbias, {C}, where);
  charge(bias_backward_cost(dy.dtype(), N, C));
  const Device device = dy.device();
  if (device == Device::meta) return;
  visit_activation(dy.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::BiasTerm<Number> term{C, dy.address<Number>(device, where)};
    const ColumnSums<Computed<Number>, 1, detail::BiasTerm<Number>> body{
        N, {dbias.address<Computed<Number>>(device, where)}, term};
    add_column_sums("bias_backward", device, C, body, where);
  });
}

#endif  // YOTTA_BODIES

}  // namespace yotta
