// Activations: gelu, silu and swiglu, all three by the logistic function.
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
// Cost: 10 to 20 FLOPs per element for 8 to 20 bytes: bound by memory on a GPU.
// References: Hendrycks and Gimpel (2016), GELUs; Shazeer (2020), GLU Variants Improve Transformer.
#pragma once

#include "yotta/nn/cpu/math.hpp"
#include "yotta/nn/elementwise.hpp"

namespace yotta {

// FLOPs per element: z, then s (negate, exp, add, divide), then the product.
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
Tensor gelu(const Tensor& x, Where where = Where::current());

// dx from dy, both of x's shape.
Tensor gelu_backward(const Tensor& dy, const Tensor& x, Where where = Where::current());

// x s(x), x of any shape; also called swish.
Tensor silu(const Tensor& x, Where where = Where::current());

// dx from dy, both of x's shape.
Tensor silu_backward(const Tensor& dy, const Tensor& x, Where where = Where::current());

// silu(gate) * up, both (N, F).
Tensor swiglu(const Tensor& gate, const Tensor& up, Where where = Where::current());

struct SwigluGradients {
  Tensor dgate, dup;  // (N, F)
};

// From dy (N, F) and the inputs of swiglu, both (N, F). silu is computed again: it was not kept.
SwigluGradients swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up,
                                Where where = Where::current());

namespace detail {

// x s(z(x)) and its slope, given z and z' of x.
template <class V>
struct Gate {
  V z, slope;
};

struct GeluGate {
  static constexpr double twice_root = 1.59576912160573071176;  // 2 sqrt(2 / pi)
  template <class V>
  YOTTA_BODY static Gate<V> of(V x) {
    constexpr ElementOf<V> a = static_cast<ElementOf<V>>(twice_root);
    constexpr ElementOf<V> b = static_cast<ElementOf<V>>(twice_root * 0.044715);
    const V square = x * x;
    return {x * (b * square + a), 3 * b * square + a};
  }
};

struct SiluGate {
  template <class V>
  YOTTA_BODY static Gate<V> of(V x) {
    return {x, V{} + ElementOf<V>{1}};
  }
};

template <class GateOf>
struct Gated {
  template <class V>
  YOTTA_BODY V operator()(V x) const {
    return x * logistic(GateOf::of(x).z);
  }
};

template <class GateOf>
struct GatedSlope {
  template <class V>
  YOTTA_BODY V operator()(V dy, V x) const {
    const Gate<V> gate = GateOf::of(x);
    const V s = logistic(gate.z);
    return dy * (s + x * s * (ElementOf<V>{1} - s) * gate.slope);
  }
};

struct Swiglu {
  template <class V>
  YOTTA_BODY V operator()(V gate, V up) const {
    return Gated<SiluGate>()(gate) * up;
  }
};

template <class Number>
struct SwigluBackward {
  const Number *dy, *gate, *up;
  Number *dgate, *dup;
  template <class Count>
  YOTTA_BODY void operator()(int64_t i, Count count) const {
    const auto x = load(gate + i, count), d = load(dy + i, count);
    const auto s = logistic(x), silu = x * s;
    store(dup + i, d * silu, count);
    store(dgate + i, d * load(up + i, count) * (s + silu * (Computed<Number>{1} - s)), count);
  }
};

}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/activations.ipp"
#endif
