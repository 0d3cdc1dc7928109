// Finite differences of layers: is a layer's backward pass the derivative of its forward pass, for
// its input and each of its weights?
//
//     loss(x) = sum of y * dy for a fixed dy, so dLoss/dy = dy
//     dx_i  against  (loss(x + h e_i) - loss(x - h e_i)) / 2h        in double, h = 2e-6
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "nn/gradient_check.hpp"
#include "yotta/nn/layer.hpp"

namespace yotta_test {

// Compares `gradient` with central differences of `loss` over the numbers of `x`: all of them, or
// about `most` spread evenly.
inline void check_slope(const std::string& what, yotta::Tensor x, const yotta::Tensor& gradient,
                        const std::function<double()>& loss, int64_t most = 16) {
  CAPTURE(what);
  REQUIRE(gradient.shape() == x.shape());
  const double h = 2e-6;
  const int64_t stride = std::max<int64_t>(1, x.numel() / most);
  for (int64_t i = 0; i < x.numel(); i += stride) {
    double* number = x.data<double>() + i;
    const double before = *number;
    *number = before + h;
    const double above = loss();
    *number = before - h;
    const double below = loss();
    *number = before;
    const double slope = (above - below) / (2 * h), given = gradient.data<double>()[i];
    CAPTURE(i);
    CAPTURE(slope);
    CAPTURE(given);
    CHECK(std::abs(slope - given) <= 5e-8 * (1 + std::abs(slope)));
  }
}

// dx and every weight gradient of a stack of f64 layers on x. Weight gradients must accumulate, so
// they start from something; Saved must be used up at the end. x of token ids has no gradient.
inline void check_gradients(yotta::Layers layers, const yotta::Tensor& x,
                            const yotta::BatchPosition& place = {}) {
  using namespace yotta;
  RankContext one_thread;  // for thousands of tiny forward passes
  one_thread.threads = 1;
  const ContextScope scope(one_thread);
  const auto run = [&] {
    Saved saved(place);
    return forward(layers, x, saved);
  };
  const Tensor dy = random_tensor(run().shape(), "dy");
  const auto loss = [&] { return dot(run(), dy); };
  for (const ParameterPtr& each : parameters(layers)) each->gradient().fill(0.25);
  Saved saved(place);
  forward(layers, x, saved);
  CHECK(saved.bytes() > 0);
  const Tensor dx = backward(layers, dy, saved);
  CHECK(saved.bytes() == 0);
  if (x.dtype() == DType::f64)
    check_slope("dx", x, dx, loss);
  else
    CHECK_FALSE(dx.defined());
  for (const ParameterPtr& each : parameters(layers)) {
    Tensor added = each->grad.clone();
    for (double& g : added.span<double>()) g -= 0.25;
    check_slope(each->name, each->value, added, loss);
  }
}

}  // namespace yotta_test
