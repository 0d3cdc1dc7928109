#include "yotta/comm/collectives_tree.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("pipelined chain broadcast, with few and many segments") {
  for (const int64_t segments : {int64_t{1}, int64_t{3}, int64_t{16}}) {
    check_broadcast([=](Channel& channel, Data data,
                        int root) { broadcast_chain(channel, data, root, segments); },
                    [=](int p, int rank, int64_t n, int64_t width, int root) {
                      return broadcast_chain_sent(p, rank, n, width, root, segments);
                    });
  }
}

TEST_CASE("broadcast by scatter and all_gather") {
  check_broadcast(broadcast_scatter_all_gather, broadcast_scatter_all_gather_sent);
}

TEST_CASE("the best number of segments beats its neighbours") {
  const AlphaBeta link{1e-6, 1e-10, 0};
  const double bytes = 1 << 20;
  const int64_t best = best_segments(8, bytes, link);
  CHECK(best == 25);  // sqrt(6 * 2^20 * 1e-10 / 1e-6)
  for (const int64_t other : {best - 1, best + 1})
    CHECK(broadcast_chain_seconds(8, bytes, link, best) <=
          broadcast_chain_seconds(8, bytes, link, other));
  CHECK(best_segments(2, bytes, link) == 1);
}
