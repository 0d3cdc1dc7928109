#include "yotta/model/embedding_layer.hpp"

#include <doctest/doctest.h>

#include "support/layer_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
Tensor ids() { return Tensor::from<int32_t>({3, 0, 3, 1, 2, 3}, {2, 3}); }
}  // namespace

TEST_CASE("gradients of the table and of the positions, repeated tokens and dropout included") {
  for (const int64_t positions : {0, 7}) {
    std::vector<LayerPtr> layers;
    layers.push_back(std::make_unique<TokenEmbedding>(
        "e", EmbeddingOptions{5, 4, positions, 0.3, normal(1)}, ParameterOptions{1, DType::f64}));
    check_gradients(layers, ids(), {0, 0, 0, 2, true});
  }
}

TEST_CASE("a row is the token's and its position's") {
  TokenEmbedding embedding("e", {5, 4, 7, 0, normal(1)}, {1, DType::f64});
  std::vector<ParameterPtr> own;
  embedding.add_parameters(own);
  CHECK(own[0]->name == "e.token.weight");
  CHECK(own[1]->name == "e.position.weight");
  Saved saved({.positions = 2});
  const Tensor y = embedding.forward(ids(), saved);
  CHECK(y.shape() == Shape{2, 3, 4});
  CHECK(y.item({1, 0, 2}) == own[0]->value.item({1, 2}) + own[1]->value.item({2, 2}));
  CHECK(y.item({0, 2, 3}) == own[0]->value.item({3, 3}) + own[1]->value.item({4, 3}));
  CHECK(saved.bytes() == 6 * 4);  // the ids
}

TEST_CASE("two runs of positions, each from its own first") {
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<TokenEmbedding>("e", EmbeddingOptions{5, 4, 9, 0, normal(1)},
                                                    ParameterOptions{1, DType::f64}));
  const Tensor tokens = Tensor::from<int32_t>({3, 0, 3, 1, 1, 2, 4, 0}, {2, 4});
  const Positions zigzag(1, 7);
  Saved saved(BatchPosition{.positions = zigzag});
  const Tensor y = layers[0]->forward(tokens, saved);
  const std::vector<ParameterPtr> own = parameters(Layers(layers));
  for (int64_t t = 0; t < 4; ++t)
    CHECK(y.item({1, t, 2}) == own[0]->value.item({int64_t(tokens.item({1, t})), 2}) +
                                   own[1]->value.item({zigzag.of(t, 4), 2}));
  check_gradients(layers, tokens, {.positions = zigzag});
}

TEST_CASE("no tokens at all") {
  TokenEmbedding embedding("e", {5, 4, 7});
  Saved saved;
  CHECK(embedding.forward(Tensor::zeros({0, 3}, DType::i32), saved).shape() == Shape{0, 3, 4});
  embedding.backward_input(Tensor::zeros({0, 3, 4}), saved);
  embedding.backward_weight(saved);
  CHECK(embedding.table()->grad.values() == std::vector<double>(20, 0.0));
}
