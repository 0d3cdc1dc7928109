// Flips of a bit, odd ranks and odd norms.
#include "yotta/resilience/silent_corruption.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/message_of.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

TEST_CASE("a bit is flipped, and flipped back") {
  Tensor x = Tensor::full({3}, 0.5);
  x.data<float>()[1] = -1;
  flip_bit(x, 31);
  CHECK(x.values() == std::vector<double>{0.5, 1, 0.5});
  flip_bit(x, 23);  // the last bit of the exponent: 0111'1111 becomes 0111'1110
  CHECK(x.values() == std::vector<double>{0.5, 0.5, 0.5});
  x.data<float>()[2] = 1;
  flip_bit(x, 30);
  CHECK(x.values() == std::vector<double>{0.5, 0.5, INFINITY});
  CHECK(contains(message_of([&] { flip_bit(x, 32); }), "bit 32"));
}

TEST_CASE("the odd ranks: a minority, or both of two") {
  const auto odd = [](const std::vector<uint64_t>& sums) {
    std::vector<int> found;
    run_ranks(static_cast<int>(sums.size()), [&](Communicator& world) {
      const auto own = odd_ranks(world, sums[static_cast<size_t>(world.rank())]);
      if (world.rank() == 0) found = own;
    });
    return found;
  };
  CHECK(odd({7, 7, 7}).empty());
  CHECK(odd({7, 8, 7}) == std::vector{1});
  CHECK(odd({7, 8}) == std::vector{0, 1});
  CHECK(odd({7}).empty());
}

TEST_CASE("a norm is odd when it is large, small or no number, and only once it knows others") {
  NormWatch watch(4);
  CHECK_FALSE(watch.is_odd(100));
  CHECK_FALSE(watch.is_odd(1));
  CHECK(watch.is_odd(1000));
  CHECK(watch.is_odd(NAN));
  CHECK(watch.is_odd(1));
  CHECK_FALSE(watch.is_odd(60));
}
