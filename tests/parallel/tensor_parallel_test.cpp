#include "yotta/parallel/tensor_parallel.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("gradients of both kinds, with and without bias and dropout") {
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu})
    for (const bool bias : {false, true}) {
      std::vector<LayerPtr> layers;
      layers.push_back(std::make_unique<Mlp>(
          "m", MlpOptions{kind, 5, 7, bias, bias ? 0.3 : 0.0, normal(0.5), normal(0.5)},
          ParameterOptions{1, DType::f64}));
      check_gradients(layers, random_tensor({2, 3, 5}, "x"), {1, 0, 0, 0, true});
    }
}

TEST_CASE(
    "kept: x, what enters the activation, what leaves it; then the gradients of the matrices") {
  const int64_t N = 6, C = 8, F = 12;
  for (const MlpKind kind : {MlpKind::gelu, MlpKind::swiglu}) {
    Mlp mlp("m", {kind, C, F, true});
    const int64_t matrices = kind == MlpKind::gelu ? 1 : 2;
    Saved saved;
    mlp.forward(Tensor::full({2, 3, C}, 1), saved);
    CHECK(saved.bytes() == 4 * N * (C + (matrices + 1) * F));
    mlp.backward_input(Tensor::full({2, 3, C}, 1), saved);
    CHECK(saved.bytes() == 4 * N * (C + F + C + matrices * F));  // x, down's x, dy of all
    mlp.backward_weight(saved);
    CHECK(saved.bytes() == 0);
  }
}
