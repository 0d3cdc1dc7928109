#include "yotta/nn/linear.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("gradients of a linear layer, with and without bias, at sizes that do not divide") {
  for (const bool bias : {false, true}) {
    std::vector<LayerPtr> layers;
    layers.push_back(std::make_unique<Linear>("a", LinearOptions{3, 5, bias, normal(1)},
                                              ParameterOptions{1, DType::f64}));
    layers.push_back(std::make_unique<Linear>("b", LinearOptions{5, 2, bias, normal(1)},
                                              ParameterOptions{1, DType::f64}));
    check_gradients(layers, random_tensor({2, 7, 3}, "x"));
  }
}

TEST_CASE("leading dims pass through, one row and none included") {
  Linear linear("l", {3, 4, true});
  Saved saved;
  CHECK(linear.forward(Tensor::zeros({2, 5, 3}), saved).shape() == Shape{2, 5, 4});
  CHECK(linear.forward(Tensor::zeros({3}), saved).shape() == Shape{4});
  CHECK(linear.forward(Tensor::zeros({0, 3}), saved).shape() == Shape{0, 4});
  CHECK(linear.backward_input(Tensor::zeros({0, 4}), saved).shape() == Shape{0, 3});
}

TEST_CASE("dgrad overwrites or adds, wgrad accumulates and reports each parameter once") {
  Linear linear("l", {3, 2, true, normal(1)}, {0, DType::f64});
  std::vector<ParameterPtr> own;
  linear.add_parameters(own);
  int final_gradients = 0;
  for (const ParameterPtr& each : own) each->on_grad_ready = [&](Parameter&) { ++final_gradients; };
  const Tensor x = random_tensor({4, 3}, "x"), dy = random_tensor({4, 2}, "dy");
  Saved saved;
  linear.forward(x, saved);
  const Tensor dx = linear.backward_input(dy, saved);
  Tensor sum = dx.clone();
  linear.add_backward_input(sum, dy, saved);
  for (int64_t i = 0; i < 12; ++i)
    CHECK(sum.data<double>()[i] == doctest::Approx(2 * dx.data<double>()[i]));

  linear.backward_weight(saved);
  CHECK(final_gradients == 2);
  const Tensor once = own[0]->grad.clone();
  linear.forward(x, saved);
  linear.backward_input(dy, saved);
  linear.backward_weight(saved);
  for (int64_t i = 0; i < 6; ++i)
    CHECK(own[0]->grad.data<double>()[i] == doctest::Approx(2 * once.data<double>()[i]));
}

TEST_CASE("x is kept from forward to wgrad, dy from dgrad to wgrad") {
  Linear linear("l", {8, 4, false});
  Saved saved;
  linear.forward(Tensor::zeros({16, 8}), saved);
  CHECK(saved.bytes() == 16 * 8 * 4);
  linear.backward_input(Tensor::zeros({16, 4}), saved);
  CHECK(saved.bytes() == 16 * (8 + 4) * 4);
  linear.backward_weight(saved);
  CHECK(saved.bytes() == 0);
}

TEST_CASE("in bf16 the activations kept have 2 bytes, and results are f32's to 8 bits") {
  Linear wide("l", {32, 16, true, normal(1)}),
      narrow("l", {32, 16, true, normal(1)}, {0, DType::bf16});
  const Tensor x = random_tensor({8, 32}, "x", DType::f32),
               dy = random_tensor({8, 16}, "dy", DType::f32);
  Saved a, b;
  const Tensor y = wide.forward(x, a), rounded = narrow.forward(x, b);
  CHECK(rounded.dtype() == DType::f32);
  CHECK(b.bytes() == 8 * 32 * 2);
  CHECK(largest_difference(y, rounded) > 0);
  CHECK(largest_difference(y, rounded) <= 0.15);  // 32 products of about 1, each good to 2^-8
  const Tensor dx = wide.backward_input(dy, a), rounded_dx = narrow.backward_input(dy, b);
  CHECK(rounded_dx.dtype() == DType::f32);
  CHECK(largest_difference(dx, rounded_dx) <= 0.15);
  narrow.backward_weight(b);
  wide.backward_weight(a);
  std::vector<ParameterPtr> left, right;
  wide.add_parameters(left);
  narrow.add_parameters(right);
  for (size_t i = 0; i < 2; ++i) CHECK(largest_difference(left[i]->grad, right[i]->grad) <= 0.15);
}

TEST_CASE("a tied weight has two uses and sums both gradients") {
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<Linear>("a", LinearOptions{4, 4, false, normal(1)},
                                            ParameterOptions{1, DType::f64}));
  std::vector<ParameterPtr> own;
  layers[0]->add_parameters(own);
  layers.push_back(std::make_unique<Linear>("b", own[0]));
  CHECK(parameters(layers).size() == 1);
  CHECK(parameter_count(Layers(layers)) == 16);
  CHECK(own[0]->uses == 2);
  check_gradients(layers, random_tensor({3, 4}, "x"));
}
