#include "yotta/nn/sgd.hpp"

#include <doctest/doctest.h>

using namespace yotta;

// w <- w - lr b, b <- 0.9 b + g + decay w, worked out by hand.
TEST_CASE("momentum, decay and clipping follow the formula") {
  const ParameterPtr w = make_parameter("w", {1, 2}, true, {2, 0}, 0, DType::f64);
  w->gradient().fill(4);
  Sgd sgd({w}, {.momentum = 0.5, .weight_decay = 0.25});
  sgd.step(0.125, 0.5);  // b = 2 + 0.5 = 2.5
  CHECK(w->value.item({0, 1}) == 2 - 0.125 * 2.5);
  const double before = 2 - 0.125 * 2.5;
  sgd.step(0.125, 0.5);  // b = 1.25 + 2 + before / 4
  CHECK(w->value.item({0, 0}) == before - 0.125 * (1.25 + 2 + before / 4));
}

TEST_CASE("without momentum there is no state, and vectors do not decay") {
  const ParameterPtr bias = make_parameter("b", {1, 3}, false, {1, 0}, 0, DType::f32);
  bias->gradient().fill(1);
  Sgd sgd({bias}, {.weight_decay = 0.5});
  CHECK(sgd.slots()[0].state.empty());
  sgd.step(0.25);
  CHECK(bias->value.values() == std::vector<double>{0.75, 0.75, 0.75});
}
