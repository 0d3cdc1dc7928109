#include "yotta/comm/collectives_naive.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("naive broadcast and reduce") {
  check_broadcast(broadcast_naive, broadcast_naive_sent);
  check_reduce(reduce_naive, reduce_naive_sent);
}

TEST_CASE("naive all_reduce, reduce_scatter and all_gather") {
  check_all_reduce(all_reduce_naive, all_reduce_naive_sent);
  check_reduce_scatter(reduce_scatter_naive, reduce_scatter_naive_sent);
  check_all_gather(all_gather_naive, all_gather_naive_sent);
}

TEST_CASE("naive gather and scatter") {
  const auto gather = [](Channel& channel, ConstData in, Data out, int root, int64_t) {
    gather_naive(channel, in, out, root);
  };
  const auto scatter = [](Channel& channel, ConstData in, Data out, int root, int64_t) {
    scatter_naive(channel, in, out, root);
  };
  check_gather(gather, gather_naive_sent);
  check_scatter(scatter, scatter_naive_sent);
}

TEST_CASE("naive all_to_all and barrier") {
  check_all_to_all(all_to_all_naive, all_to_all_naive_sent);
  check_barrier(barrier_naive,
                [](int p, int rank, int64_t, int64_t) { return barrier_naive_sent(p, rank); });
}
