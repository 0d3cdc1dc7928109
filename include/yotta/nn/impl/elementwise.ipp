// The bodies of nn/elementwise.hpp.
#pragma once

#include "yotta/nn/elementwise.hpp"

namespace yotta {

YOTTA_INLINE void add_into(Tensor& a, const Tensor& b, Where where) {
  expect_same("add_into", "a", a, "b", b, where);
  charge(add_cost(a.dtype(), a.numel()));
  detail::map_into("add_into", a, Plus{}, where, a, b);
}

YOTTA_INLINE Tensor add(const Tensor& a, const Tensor& b, Where where) {
  expect_same("add", "a", a, "b", b, where);
  return detail::map(add_cost(a.dtype(), a.numel()), Plus{}, where, a, b);
}

YOTTA_INLINE Tensor scale(const Tensor& x, double factor, Where where) {
  return detail::map(scale_cost(x.dtype(), x.numel()), ScaleBy{factor}, where, x);
}

YOTTA_INLINE Tensor multiply(const Tensor& a, const Tensor& b, Where where) {
  expect_same("multiply", "a", a, "b", b, where);
  return detail::map(multiply_cost(a.dtype(), a.numel()), Times{}, where, a, b);
}

YOTTA_INLINE Tensor add_bias(const Tensor& x, const Tensor& bias, Where where) {
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

YOTTA_INLINE void bias_backward(const Tensor& dy, Tensor& dbias, Where where) {
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
  after_launch([dy] {});  // it lives until then
}

}  // namespace yotta
