#include "yotta/nn/slice.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"
#include "yotta/nn/linear_net.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Slices of a net, cut at the given layers.
std::vector<LayerPtr> cut(Layers net, std::initializer_list<size_t> at) {
  std::vector<LayerPtr> slices;
  size_t begin = 0;
  for (const size_t end : at) {
    slices.push_back(std::make_unique<Slice>(net.subspan(begin, end - begin)));
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
