#include "yotta/nn/layer.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "support/message_of.hpp"
#include "yotta/nn/linear_net.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
const Tensor& input() {
  static const Tensor x = Tensor::full({3, 4}, 0.5);
  return x;
}
}  // namespace

TEST_CASE("gradients become final from the last layer to the first, once a microbatch") {
  const std::vector<LayerPtr> net = make_linear_net({3, 4});
  std::vector<std::string> order;
  for (const ParameterPtr& each : parameters(net))
    each->on_grad_ready = [&](Parameter& self) { order.push_back(self.name); };
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    Saved saved;
    backward(net, forward(net, input(), saved), saved);
  }
  CHECK(order == std::vector<std::string>{"layers.2.weight", "layers.1.weight", "layers.0.weight",
                                          "layers.2.weight", "layers.1.weight", "layers.0.weight"});
}

TEST_CASE("dgrad of all layers first, wgrad of all layers later, is the same backward pass") {
  const std::vector<LayerPtr> now = make_linear_net({3, 4}), later = make_linear_net({3, 4});
  Saved a, b;
  const Tensor dy = Tensor::full({3, 4}, 1);
  forward(now, input(), a);
  const Tensor dx = backward(now, dy, a);

  forward(later, input(), b);
  const int64_t after_forward = b.bytes();
  Tensor d = dy;
  for (size_t i = 3; i-- > 0;) d = later[i]->backward_input(d, b.child(later[i]->name()));
  CHECK(b.bytes() == 2 * after_forward);  // the price: x and dy of every layer
  CHECK(d.values() == dx.values());
  for (const LayerPtr& layer : later) layer->backward_weight(b.child(layer->name()));
  CHECK(b.bytes() == 0);
  for (size_t i = 0; i < 3; ++i)
    CHECK(parameters(now)[i]->grad.values() == parameters(later)[i]->grad.values());
}

TEST_CASE("dropping a layer's Saved and running its forward again is activation checkpointing") {
  const std::vector<LayerPtr> net = make_linear_net({2, 4});
  Saved saved;
  const Tensor x1 = net[0]->forward(input(), saved.child("layers.0"));
  const Tensor y = net[1]->forward(x1, saved.child("layers.1"));
  saved.child("layers.1").clear();
  const std::string message = message_of([&] { backward(net, y, saved); });
  CHECK(contains(message, "'layers.1' holds no 'x'"));
  CHECK(net[1]->forward(x1, saved.child("layers.1")).values() == y.values());
  CHECK(backward(net, y, saved).shape() == Shape{3, 4});
}

TEST_CASE("two microbatches in flight do not disturb each other") {
  const std::vector<LayerPtr> net = make_linear_net({2, 4});
  const Tensor other = Tensor::full({3, 4}, -2);
  Saved a, b, c;
  const Tensor ya = forward(net, input(), a);
  forward(net, other, b);
  const Tensor dx = backward(net, ya, a);
  forward(net, input(), c);
  CHECK(backward(net, ya, c).values() == dx.values());
  CHECK(b.bytes() > 0);
}

TEST_CASE("zero_gradients leaves memory where it is") {
  const std::vector<LayerPtr> net = make_linear_net({2, 4});
  zero_gradients(net);  // nothing to zero yet
  Saved saved;
  backward(net, forward(net, input(), saved), saved);
  const ParameterPtr first = parameters(net)[0];
  const Tensor before = first->grad;
  zero_gradients(net);
  CHECK(first->grad.shares_memory(before));
  CHECK(first->grad.values() == std::vector<double>(16, 0.0));
}

namespace {

// Slices of a net, cut at the given layers.
std::vector<LayerPtr> cut(Layers net, std::initializer_list<size_t> at) {
  std::vector<LayerPtr> slices;
  size_t begin = 0;
  for (const size_t end : at) {
    slices.push_back(std::make_unique<Sequential>(net.subspan(begin, end - begin)));
    begin = end;
  }
  return slices;
}

}  // namespace

TEST_CASE("a slice is a layer: its gradients are those of its layers, an empty one does nothing") {
  const std::vector<LayerPtr> net = make_linear_net({4, 3}, {7, DType::f64});
  const Tensor x = random_tensor({5, 3}, "x");
  check_gradients(cut(net, {1, 1, 4}), x);
  for (const ParameterPtr& each : parameters(Layers(net))) each->zero_grad();
  Saved whole, sliced;
  const Tensor y = forward(net, x, whole);
  const Tensor dx = backward(net, y, whole);
  std::vector<double> expected;
  for (const ParameterPtr& each : parameters(Layers(net))) {
    for (const double g : each->grad.values()) expected.push_back(g);
    each->zero_grad();
  }
  const std::vector<LayerPtr> slices = cut(net, {3, 4});
  CHECK(forward(slices, x, sliced).values() == y.values());
  CHECK(backward(slices, y, sliced).values() == dx.values());
  std::vector<double> actual;
  for (const ParameterPtr& each : parameters(Layers(slices)))
    for (const double g : each->grad.values()) actual.push_back(g);
  CHECK(actual == expected);
}

TEST_CASE("a slice keeps dy of each of its layers until backward_weight, and is named after them") {
  const std::vector<LayerPtr> net = make_linear_net({4, 3}, {7, DType::f64});
  const std::vector<LayerPtr> slices = cut(net, {0, 1, 4});
  CHECK(slices[0]->name() == "nothing");
  CHECK(slices[1]->name() == "layers.0");
  CHECK(slices[2]->name() == "layers.1 to layers.3");
  Saved saved;
  const Tensor y = slices[2]->forward(random_tensor({5, 3}, "x"), saved);
  const int64_t one = 5 * 3 * 8;
  CHECK(saved.bytes() == 3 * one);
  slices[2]->backward_input(random_tensor({5, 3}, "dy"), saved);
  CHECK(saved.bytes() == 6 * one);
  slices[2]->backward_weight(saved);
  CHECK(saved.bytes() == 0);
}
