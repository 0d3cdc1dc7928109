#include "yotta/comm/communicator.hpp"

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

TEST_CASE("every rank gets the sum, and a rank alone its own number, without a message") {
  for (const int ranks : {1, 2, 3, 4, 8})
    run_ranks(ranks, [&](Communicator& world) {
      CHECK(sum_over(world, 0.5 + world.rank(), "loss") == ranks * ranks / 2.0);
      const Ledger& ledger = context().ledger;
      CHECK(ledger.total_traffic().bytes_sent == ledger.traffic("loss").bytes_sent);
      CHECK((ledger.total_traffic().messages_sent > 0) == (ranks > 1));
    });
  CHECK(sum_over(Communicator(), 3.25, "loss") == 3.25);
}
