#include "yotta/model/microbatch.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "yotta/nn/cross_entropy.hpp"

using namespace yotta;

namespace {

// (B, 2): row b holds 10 b and 10 b + 1.
Tensor tokens(int B) {
  std::vector<int32_t> ids;
  for (int b = 0; b < B; ++b) ids.insert(ids.end(), {10 * b, 10 * b + 1});
  return Tensor::from(ids, {B, 2});
}

}  // namespace

TEST_CASE("five sequences in two microbatches: the longer first, each knows where it stands") {
  const Positions positions(4);
  const std::vector<Microbatch> parts = microbatches(tokens(5), tokens(5), 2, 100, positions);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].inputs.shape() == Shape{3, 2});
  CHECK(parts[1].targets.shape() == Shape{2, 2});
  CHECK(parts[1].inputs.item({0, 1}) == 31);
  CHECK(parts[0].first_sequence == 100);
  CHECK(parts[1].first_sequence == 103);
  CHECK(position_of(parts[1], {}).first_sequence == 103);
  CHECK(position_of(parts[1], {}).positions.first == 4);
}

TEST_CASE("empty microbatches are left out") {
  CHECK(microbatches(tokens(2), tokens(2), 4).size() == 2);
  CHECK(microbatches(tokens(0), tokens(0), 4).empty());
}

TEST_CASE("the loss of a microbatch is its rows' cross entropy; dlogits are its gradient") {
  const Tensor targets = Tensor::from<int32_t>({0, 2}, {1, 2});
  const Microbatch batch{targets, targets};
  const auto logits = [] { return Tensor::from<float>({1, 2, 3, 4, 5, 6}, {1, 2, 3}); };
  Tensor dlogits;
  const double loss = loss_of(logits(), batch, 0.5, &dlogits);
  const double sum = std::exp(0) + std::exp(1) + std::exp(2);
  CHECK(loss == doctest::Approx(0.5 * (2 * std::log(sum) - 0 - 2)));
  REQUIRE(dlogits.shape() == Shape{1, 2, 3});
  CHECK(dlogits.item({0, 0, 0}) == doctest::Approx(0.5 * (1 / sum - 1)));
  CHECK(dlogits.item({0, 1, 0}) == doctest::Approx(0.5 / sum));
  CHECK(loss_of(logits(), batch, 0.5, nullptr) == doctest::Approx(loss));
}
