#include "yotta/nn/norm_layer.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("gradients of both norms, on any leading dims") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
    std::vector<LayerPtr> layers;
    layers.push_back(
        std::make_unique<Norm>("n", NormOptions{kind, 5}, ParameterOptions{1, DType::f64}));
    check_gradients(layers, random_tensor({2, 3, 5}, "x"));
    check_gradients(layers, random_tensor({1, 5}, "x"));
  }
}

TEST_CASE("a norm keeps x and one or two numbers per row, then dy") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
    Norm norm("n", {kind, 16});
    Saved saved;
    norm.forward(Tensor::full({4, 16}, 1), saved);
    const int64_t kept = 4 * 4 * (16 + (kind == NormKind::layernorm ? 2 : 1));
    CHECK(saved.bytes() == kept);
    norm.backward_input(Tensor::full({4, 16}, 1), saved);
    CHECK(saved.bytes() == kept + 4 * 4 * 16);
    norm.backward_weight(saved);
    CHECK(saved.bytes() == 0);
  }
}

TEST_CASE("weights start at one, biases at zero, and neither is a matrix that decays") {
  Norm norm("n", {NormKind::layernorm, 3});
  std::vector<ParameterPtr> own;
  norm.add_parameters(own);
  CHECK(own[0]->name == "n.weight");
  CHECK(own[0]->value.values() == std::vector<double>{1, 1, 1});
  CHECK(own[1]->name == "n.bias");
  CHECK(own[1]->value.values() == std::vector<double>{0, 0, 0});
  CHECK_FALSE(own[0]->is_matrix);
}
