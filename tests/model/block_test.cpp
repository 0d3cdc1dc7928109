#include "yotta/model/block.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("gradients through both residual arms") {
  const BlockOptions options{
      .norm = {NormKind::layernorm, 6},
      .attention = {.width = 6, .heads = 3, .kv_heads = 3, .head_size = 2, .initial = normal(0.5)},
      .mlp = {.width = 6, .hidden = 9, .initial = normal(0.5), .initial_down = normal(0.5)}};
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<Block>("b", options, ParameterOptions{1, DType::f64}));
  check_gradients(layers, random_tensor({2, 4, 6}, "x"));
}

TEST_CASE("arms that give zero leave the stream as it is, forward and backward") {
  const BlockOptions options{
      .norm = {NormKind::rmsnorm, 4},
      .attention = {.width = 4, .heads = 2, .kv_heads = 1, .head_size = 2, .initial_o = zeros()},
      .mlp = {.kind = MlpKind::swiglu, .width = 4, .hidden = 6, .initial_down = zeros()}};
  Block block("b", options);
  const Tensor x = random_tensor({1, 3, 4}, "x", DType::f32);
  Saved saved;
  CHECK(block.forward(x, saved).values() == x.values());
  CHECK(block.backward_input(x, saved).values() == x.values());
}
