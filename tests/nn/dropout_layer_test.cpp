#include "yotta/nn/dropout_layer.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/layer_check.hpp"
#include "support/refused.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("backward drops what forward dropped, and grows the rest alike") {
  std::vector<LayerPtr> layers;
  layers.push_back(std::make_unique<Dropout>("d", 0.4));
  const Tensor x = random_tensor({2, 3, 5}, "x");
  check_gradients(layers, x, {1, 2, 3, 4, true});
}

TEST_CASE("a part of the sequences and positions drops what the whole drops there") {
  Dropout dropout("d", 0.5);
  const Tensor x = Tensor::full({3, 8, 4}, 1);
  Saved whole({.seed = 9, .step = 2, .training = true});
  const Tensor y = dropout.forward(x, whole);
  Saved part({9, 2, 1, 5, true});  // sequences 1 and 2, positions 5 to 7
  const Tensor z = dropout.forward(Tensor::full({2, 3, 4}, 1), part);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t c = 0; c < 4; ++c) CHECK(z.item({b, t, c}) == y.item({1 + b, 5 + t, c}));
  CHECK(whole.bytes() == 3 * 8 * 4);
}

TEST_CASE("two runs of positions drop what the whole drops at each") {
  Dropout dropout("d", 0.5);
  Saved whole({.seed = 9, .step = 2, .training = true});
  const Tensor y = dropout.forward(Tensor::full({3, 12, 4}, 1), whole);
  const Positions zigzag(3, 9);  // columns 0 to 2 at 3 to 5, 3 to 5 at 9 to 11
  Saved part({9, 2, 1, zigzag, true});
  const Tensor z = dropout.forward(Tensor::full({2, 6, 4}, 1), part);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 6; ++t)
      for (int64_t c = 0; c < 4; ++c)
        CHECK(z.item({b, t, c}) == y.item({1 + b, zigzag.of(t, 6), c}));
}

TEST_CASE("outside training and at p = 0 x passes through, and nothing is kept") {
  const Tensor x = Tensor::full({2, 3, 4}, 1);
  for (const bool training : {false, true}) {
    Dropout dropout("d", training ? 0 : 0.5);
    Saved saved({.training = training});
    CHECK(dropout.forward(x, saved).shares_memory(x));
    CHECK(dropout.backward_input(x, saved).shares_memory(x));
    CHECK(saved.bytes() == 0);
  }
}

TEST_CASE("a probability of 1, below 0 or NaN is refused when the layer is made") {
  for (const double p : {1.0, 1.5, -0.5, std::numeric_limits<double>::quiet_NaN()})
    yotta_test::check_refused({{"the probability of dropout is", [&] { Dropout("d", p); }}});
}
