// Activations: gelu, silu and swiglu, and how one function of the library serves all three.
//
//          y                                        s(z) = 1 / (1 + e^-z), the logistic function
//          |      /                                 s' = s (1 - s)
//          |    _/        gelu(x) = x s(2u),  u = sqrt(2/pi) (x + 0.044715 x^3)
//     -----+--_/------ x  silu(x) = x s(x)
//       \__|_/            swiglu(g, u) = silu(g) u
//
// gelu in its tanh form (GPT-2's) is x/2 (1 + tanh u). Since 1 + tanh u = 2 s(2u), one exp and one
// division do it, and the left tail keeps its digits, where 1 + tanh u would cancel to zero.
//
// Backward, with y = x s(z(x)): dy/dx = s + x s (1 - s) z'(x).
//     gelu: z = 2u, z' = 2 sqrt(2/pi) (1 + 3 * 0.044715 x^2);  silu: z = x, z' = 1;
//     swiglu: dg = dy u silu'(g), du = dy silu(g).
// s is computed again from x in the backward pass: cheaper than reading it from memory.
//
// Cost: 10 to 20 FLOPs an element for 8 to 20 bytes: bound by memory on a GPU.
// References: Hendrycks and Gimpel (2016), GELUs; Shazeer (2020), GLU Variants Improve Transformer.
#pragma once

#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/math.hpp"

namespace yotta {

namespace detail {

// x s(z(x)) and its slope, given z and z' of x.
template <class V>
struct Gate {
  V z, slope;
};
struct GeluGate {
  static constexpr double twice_root = 1.59576912160573071176;  // 2 sqrt(2 / pi)
  template <class Real>
  static Gate<Vector<Real>> of(Vector<Real> x) {
    constexpr Real a = static_cast<Real>(twice_root);
    constexpr Real b = static_cast<Real>(twice_root * 0.044715);
    const Vector<Real> square = x * x;
    return {x * (b * square + a), 3 * b * square + a};
  }
};
struct SiluGate {
  template <class Real>
  static Gate<Vector<Real>> of(Vector<Real> x) {
    return {x, in_all_lanes(Real{1})};
  }
};

template <class Real, class GateOf>
Vector<Real> gated(Vector<Real> x) {
  return x * vector_logistic<Real>(GateOf::template of<Real>(x).z);
}
template <class Real, class GateOf>
Vector<Real> gated_slope(Vector<Real> x) {
  const Gate<Vector<Real>> gate = GateOf::template of<Real>(x);
  const Vector<Real> s = vector_logistic<Real>(gate.z);
  return s + x * s * (Real{1} - s) * gate.slope;
}

template <class GateOf>
Tensor gated_forward(const OpCost& cost, const Tensor& x, Where where) {
  charge(cost);
  Tensor y = empty_like(x, where);
  if (x.device() == Device::meta) return y;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    map(
        x.numel(), y.data<Real>(), [](Vector<Real> v) { return gated<Real, GateOf>(v); },
        x.data<Real>(where));
  });
  return y;
}
template <class GateOf>
Tensor gated_backward(const OpCost& cost, const Tensor& dy, const Tensor& x, Where where) {
  expect_same(cost.name, "dy", dy, "x", x, where);
  charge(cost);
  Tensor dx = empty_like(x, where);
  if (x.device() == Device::meta) return dx;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    using V = Vector<Real>;
    map(
        x.numel(), dx.data<Real>(), [](V d, V v) { return d * gated_slope<Real, GateOf>(v); },
        dy.data<Real>(where), x.data<Real>(where));
  });
  return dx;
}

}  // namespace detail

// FLOPs an element: z, then s (negate, exp, add, divide), then the product.
constexpr OpCost gelu_cost(DType dtype, int64_t n) {
  return elementwise_cost("gelu", dtype, n, 4 + 4 + 1, 1, 1);
}
constexpr OpCost gelu_backward_cost(DType dtype, int64_t n) {
  return elementwise_cost("gelu_backward", dtype, n, 6 + 4 + 6, 2, 1);
}
constexpr OpCost silu_cost(DType dtype, int64_t n) {
  return elementwise_cost("silu", dtype, n, 4 + 1, 1, 1);
}
constexpr OpCost silu_backward_cost(DType dtype, int64_t n) {
  return elementwise_cost("silu_backward", dtype, n, 4 + 5, 2, 1);
}
constexpr OpCost swiglu_cost(DType dtype, int64_t n) {
  return elementwise_cost("swiglu", dtype, n, 4 + 2, 2, 1);
}
constexpr OpCost swiglu_backward_cost(DType dtype, int64_t n) {
  return elementwise_cost("swiglu_backward", dtype, n, 4 + 8, 3, 2);
}

// gelu in tanh form, x of any shape.
inline Tensor gelu(const Tensor& x, Where where = Where::current()) {
  return detail::gated_forward<detail::GeluGate>(gelu_cost(x.dtype(), x.numel()), x, where);
}
inline Tensor gelu_backward(const Tensor& dy, const Tensor& x, Where where = Where::current()) {
  return detail::gated_backward<detail::GeluGate>(gelu_backward_cost(x.dtype(), x.numel()), dy, x,
                                                  where);
}

// x s(x), x of any shape; also called swish.
inline Tensor silu(const Tensor& x, Where where = Where::current()) {
  return detail::gated_forward<detail::SiluGate>(silu_cost(x.dtype(), x.numel()), x, where);
}
inline Tensor silu_backward(const Tensor& dy, const Tensor& x, Where where = Where::current()) {
  return detail::gated_backward<detail::SiluGate>(silu_backward_cost(x.dtype(), x.numel()), dy, x,
                                                  where);
}

// silu(gate) * up, both (N, F).
inline Tensor swiglu(const Tensor& gate, const Tensor& up, Where where = Where::current()) {
  expect_same("swiglu", "gate", gate, "up", up, where);
  charge(swiglu_cost(gate.dtype(), gate.numel()));
  Tensor y = empty_like(gate, where);
  if (gate.device() == Device::meta) return y;
  visit_real(gate.dtype(), where, [&]<class Real>(Type<Real>) {
    using V = Vector<Real>;
    detail::map(
        gate.numel(), y.data<Real>(),
        [](V g, V u) { return detail::gated<Real, detail::SiluGate>(g) * u; },
        gate.data<Real>(where), up.data<Real>(where));
  });
  return y;
}

struct SwigluGradients {
  Tensor dgate, dup;  // (N, F)
};
inline SwigluGradients swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up,
                                       Where where = Where::current()) {
  expect_same("swiglu_backward", "gate", gate, "up", up, where);
  expect_same("swiglu_backward", "dy", dy, "gate", gate, where);
  charge(swiglu_backward_cost(gate.dtype(), gate.numel()));
  SwigluGradients d{empty_like(gate, where), empty_like(gate, where)};
  if (gate.device() == Device::meta) return d;
  visit_real(gate.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real *g = gate.data<Real>(where), *u = up.data<Real>(where), *y = dy.data<Real>(where);
    Real *dg = d.dgate.data<Real>(), *du = d.dup.data<Real>();
    parallel_for(gate.numel(), elements_per_thread, [&](int64_t begin, int64_t end) {
      for_lanes<Real>(end - begin, [&](int64_t i, auto count) {
        const Vector<Real> x = load(g + begin + i, count), out = load(y + begin + i, count);
        const Vector<Real> s = vector_logistic<Real>(x), silu = x * s;
        store(du + begin + i, out * silu, count);
        store(dg + begin + i, out * load(u + begin + i, count) * (s + silu * (Real{1} - s)), count);
      });
    });
  });
  return d;
}

}  // namespace yotta
