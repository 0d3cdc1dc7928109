#include "yotta/comm/collectives_recursive.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/collectives_bruck.hpp"
#include "yotta/comm/collectives_tree.hpp"

using namespace yotta;
using namespace yotta_test;

// collectives_contract_test compares the exact counts with the ledger; here they meet the published
// forms.
TEST_CASE("for powers of two that divide n the exact counts are the published ones") {
  for (const int p : {1, 2, 4, 8, 16}) {
    const int64_t n = 48 * p, width = 4, bytes = n * width;
    const int64_t most = (p - 1) * bytes / p;  // (p-1)/p N
    const int rounds = ceil_log2(p);
    for (int rank = 0; rank < p; ++rank) {
      CAPTURE(p);
      CHECK(all_reduce_recursive_doubling_sent(p, rank, n, width) == Sent{rounds, rounds * bytes});
      CHECK(reduce_scatter_recursive_halving_sent(p, rank, n, width) == Sent{rounds, most});
      CHECK(all_gather_recursive_doubling_sent(p, rank, n, width) == Sent{rounds, most});
      CHECK(all_reduce_rabenseifner_sent(p, rank, n, width) == Sent{2 * rounds, 2 * most});
    }
  }
}

TEST_CASE("six ranks: two are folded away, send once and get one result back") {
  // Teams 0+1, 2+3, 4, 5. 12 elements of 4 bytes; each of two rounds sends all of them.
  CHECK(all_reduce_recursive_doubling_sent(6, 4, 12, 4) == Sent{2, 96});
  int64_t messages = 0, bytes = 0;
  for (int rank = 0; rank < 6; ++rank) {
    const Sent sent = all_reduce_recursive_doubling_sent(6, rank, 12, 4);
    messages += sent.messages, bytes += sent.bytes;
  }
  CHECK(messages == 4 * 2 + 2 + 2);  // four teams' rounds, two folded in, two handed back
  CHECK(bytes == 12 * 48);
}

TEST_CASE("seconds: latency falls from p to lg p, bytes stay those of the ring") {
  const AlphaBeta latency = {1, 0, 0}, bandwidth = {0, 1, 0}, reducing = {0, 0, 1};
  CHECK(all_reduce_rabenseifner_seconds(8, 800, latency) == 6);
  CHECK(all_reduce_rabenseifner_seconds(8, 800, bandwidth) == 1400);
  CHECK(all_reduce_rabenseifner_seconds(8, 800, reducing) == 700);
  CHECK(all_reduce_recursive_doubling_seconds(8, 800, latency) == 3);
  CHECK(all_reduce_recursive_doubling_seconds(8, 800, bandwidth) == 2400);
  CHECK(all_reduce_recursive_doubling_seconds(8, 800, reducing) == 2400);
}

TEST_CASE("costs that are published for powers of two refuse other numbers of ranks") {
  const AlphaBeta link{1, 1, 1};
  using Cost = double (*)(int, double, AlphaBeta);
  const std::pair<const char*, Cost> costs[] = {
      {"all_reduce_recursive_doubling", all_reduce_recursive_doubling_seconds},
      {"reduce_scatter_recursive_halving", reduce_scatter_recursive_halving_seconds},
      {"all_gather_recursive_doubling", all_gather_recursive_doubling_seconds},
      {"reduce_scatter_recursive_halving", all_reduce_rabenseifner_seconds},
      {"gather_tree", gather_tree_seconds},
      {"gather_tree", scatter_tree_seconds},
      {"gather_tree", broadcast_scatter_all_gather_seconds},
      {"all_to_all_bruck", all_to_all_bruck_seconds}};
  for (const auto& [name, cost] : costs) {
    CAPTURE(name);
    for (const int p : {1, 2, 8, 64})
      CHECK(message_of([&] { cost(p, 8, link); }) == "nothing was thrown");
    for (const int p : {0, 3, 6, 65})
      CHECK(contains(
          message_of([&] { cost(p, 8, link); }),
          fmt::format("{} is published for powers of two, and {} ranks are none", name, p)));
  }
  CHECK(all_gather_bruck_seconds(6, 6, {1, 0, 0}) == 3);  // this one holds for any p
}
