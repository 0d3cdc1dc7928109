// The bodies of nn/activations.hpp.
#pragma once

#include "yotta/nn/activations.hpp"

namespace yotta {

namespace detail {

template <class GateOf>
Tensor gated_backward(const OpCost& cost, const Tensor& dy, const Tensor& x, Where where) {
  expect_same(cost.name, "dy", dy, "x", x, where);
  return map(cost, GatedSlope<GateOf>{}, where, dy, x);
}

}  // namespace detail

YOTTA_INLINE Tensor gelu(const Tensor& x, Where where) {
  return detail::map(gelu_cost(x.dtype(), x.numel()), detail::Gated<detail::GeluGate>{}, where, x);
}

YOTTA_INLINE Tensor gelu_backward(const Tensor& dy, const Tensor& x, Where where) {
  return detail::gated_backward<detail::GeluGate>(gelu_backward_cost(x.dtype(), x.numel()), dy, x,
                                                  where);
}

YOTTA_INLINE Tensor silu(const Tensor& x, Where where) {
  return detail::map(silu_cost(x.dtype(), x.numel()), detail::Gated<detail::SiluGate>{}, where, x);
}

YOTTA_INLINE Tensor silu_backward(const Tensor& dy, const Tensor& x, Where where) {
  return detail::gated_backward<detail::SiluGate>(silu_backward_cost(x.dtype(), x.numel()), dy, x,
                                                  where);
}

YOTTA_INLINE Tensor swiglu(const Tensor& gate, const Tensor& up, Where where) {
  expect_same("swiglu", "gate", gate, "up", up, where);
  return detail::map(swiglu_cost(gate.dtype(), gate.numel()), detail::Swiglu{}, where, gate, up);
}

YOTTA_INLINE SwigluGradients swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up,
                                             Where where) {
  expect_same("swiglu_backward", "gate", gate, "up", up, where);
  expect_same("swiglu_backward", "dy", dy, "gate", gate, where);
  charge(swiglu_backward_cost(gate.dtype(), gate.numel()));
  SwigluGradients d{empty_like(gate, where), empty_like(gate, where)};
  const Device device = gate.device();
  if (device == Device::meta) return d;
  visit_activation(gate.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::SwigluBackward<Number> body{
        dy.address<Number>(device, where), gate.address<Number>(device, where),
        up.address<Number>(device, where), d.dgate.address<Number>(device),
        d.dup.address<Number>(device)};
    run_elementwise<Number>("swiglu_backward", device, gate.numel(), body, where);
  });
  return d;
}

}  // namespace yotta
