#include "yotta/nn/loss.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace yotta;

TEST_CASE("the loss is its rows' cross entropy; dlogits are its gradient") {
  const Tensor targets = Tensor::from<int32_t>({0, 2}, {1, 2});
  const auto logits = [] { return Tensor::from<float>({1, 2, 3, 4, 5, 6}, {1, 2, 3}); };
  Tensor dlogits;
  const double loss = loss_of(logits(), targets, 0.5, &dlogits);
  const double sum = std::exp(0) + std::exp(1) + std::exp(2);
  CHECK(loss == doctest::Approx(0.5 * (2 * std::log(sum) - 0 - 2)));
  REQUIRE(dlogits.shape() == Shape{1, 2, 3});
  CHECK(dlogits.item({0, 0, 0}) == doctest::Approx(0.5 * (1 / sum - 1)));
  CHECK(dlogits.item({0, 1, 0}) == doctest::Approx(0.5 / sum));
  CHECK(loss_of(logits(), targets, 0.5, nullptr) == doctest::Approx(loss));
}
