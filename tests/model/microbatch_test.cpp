#include "yotta/model/microbatch.hpp"

#include <doctest/doctest.h>

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
