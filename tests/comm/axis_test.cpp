#include "yotta/comm/axis.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

TEST_CASE("an axis without a communicator has one rank, and this is rank 0 of it") {
  CHECK(axis_size(Communicator()) == 1);
  CHECK(axis_rank(Communicator()) == 0);
  run_ranks(3, [](Communicator& world) {
    CHECK(axis_size(world) == 3);
    CHECK(axis_rank(world) == world.rank());
    const Communicator none = world.split(-1, 0);
    CHECK(axis_size(none) == 1);
    CHECK(axis_rank(none) == 0);
  });
}
