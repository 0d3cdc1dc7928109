// The bodies of nn/softmax.hpp.
#pragma once

#include "yotta/nn/softmax.hpp"

namespace yotta {

YOTTA_INLINE Tensor softmax(const Tensor& x, Where where) {
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

YOTTA_INLINE Tensor softmax_backward(const Tensor& dy, const Tensor& y, Where where) {
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

}  // namespace yotta
