#include "yotta/comm/collectives.hpp"

#include <doctest/doctest.h>

using namespace yotta;

// The files beside this one test what the families do.
TEST_CASE("the umbrella has every family: an array of 8 bytes from rank 0 of 8 ranks") {
  constexpr int p = 8, n = 8, width = 1;
  CHECK(all_reduce_ring_sent(p, 0, n, width).messages == 14);
  CHECK(broadcast_naive_sent(p, 0, n, width, 0).messages == 7);
  CHECK(broadcast_tree_sent(p, 0, n, width, 0).messages == 3);
  CHECK(teams_around(0, 1).end > 0);
  CHECK(all_gather_bruck_sent(p, 0, n, width).messages == 3);
  CHECK(broadcast_chain_sent(p, 0, n, width, 0, 4).messages == 4);
  CHECK(all_reduce_hierarchical_sent(p, 0, n, width, 4).messages > 0);
  CHECK(all_to_all_pairwise_sent(p, 0, n, width).messages == 7);
}
