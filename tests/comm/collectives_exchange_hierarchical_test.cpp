#include "yotta/comm/collectives_exchange.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"
#include "comm/two_nodes.hpp"
#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

int64_t count_of(int from, int to) { return (from + 2 * to) % 5; }
int32_t value_of(int from, int to, int64_t i) { return 100 * from + 10 * to + static_cast<int>(i); }

std::vector<int64_t> all_counts(int p) {
  std::vector<int64_t> all;
  for (int from = 0; from < p; ++from)
    for (int to = 0; to < p; ++to) all.push_back(count_of(from, to));
  return all;
}

struct Uneven {  // what a rank sends, and is to receive
  std::vector<int64_t> in_counts, out_counts;
  std::vector<int32_t> in, expected;

  Uneven(int p, int rank) {
    for (int other = 0; other < p; ++other) {
      in_counts.push_back(count_of(rank, other));
      out_counts.push_back(count_of(other, rank));
      for (int64_t i = 0; i < in_counts.back(); ++i) in.push_back(value_of(rank, other, i));
      for (int64_t i = 0; i < out_counts.back(); ++i) expected.push_back(value_of(other, rank, i));
    }
  }
};

}  // namespace

TEST_CASE("two hops, uneven counts: values, messages and bytes, for nodes of 1 to all ranks") {
  for (const int p : rank_counts)
    for (int g = 1; g <= p; ++g) {
      if (p % g != 0) continue;
      const std::vector<int64_t> all = all_counts(p);
      const std::vector<Sent> sent = LocalRanks::run(p, [&](LocalRanks::Rank& rank) {
        const Uneven mine(p, rank.rank());
        std::vector<int32_t> out(mine.expected.size(), -1);
        all_to_all_v_hierarchical(rank, mine.in, mine.in_counts, out, mine.out_counts, g);
        if (out != mine.expected)
          fail(Where::current(), "rank {} of {} has other numbers", rank.rank(), p);
        if (all_to_all_v_hierarchical_sent(p, rank.rank(), all, 4, g) != rank.sent())
          fail(Where::current(), "rank {} of {}: {} bytes", rank.rank(), p, rank.sent().bytes);
      });
      CHECK(sent[0].messages == 2 * (g - 1) + p / g - 1);
    }
}

TEST_CASE("two hops through the communicator; nodes that do not divide are refused") {
  const CommOptions by_four{.algorithm = Algorithm::hierarchical, .label = "x", .node = 4};
  const auto reports = run_ranks(8, [&](Communicator& world) {
    const Uneven mine(8, world.rank());
    std::vector<int32_t> out(mine.expected.size());
    world.all_to_all_v_async(out, mine.out_counts, mine.in, mine.in_counts, by_four).wait();
    CHECK(out == mine.expected);
  });
  for (int r = 0; r < 8; ++r) {
    const Traffic traffic = reports[static_cast<size_t>(r)].ledger().traffic("x");
    CHECK(Sent{traffic.messages_sent, traffic.bytes_sent} ==
          all_to_all_v_hierarchical_sent(8, r, all_counts(8), 4, 4));
  }
  for (const int node : {0, 4}) {
    const std::string text = message_of([&] {
      run_ranks(6, [&](Communicator& world) {
        const Uneven mine(6, world.rank());
        std::vector<int32_t> out(mine.expected.size());
        world.all_to_all_v(out, mine.out_counts, mine.in, mine.in_counts,
                           {.algorithm = Algorithm::hierarchical, .node = node});
      });
    });
    CHECK(contains(text, node == 0 ? "CommOptions::node is 0"
                                   : "a hierarchical all_to_all_v of 6 ranks needs nodes of equal "
                                     "size"));
  }
}

TEST_CASE(
    "two nodes of eight: time as the formula; a pairwise step is as slow as its slowest pair") {
  const auto timed = [](Algorithm algorithm, int64_t bytes) {
    return seconds_on_two_nodes(16, [&](Communicator& world) {
      const DeviceScope meta(Device::meta);
      const Tensor in = Tensor::empty({bytes}, DType::u8);
      Tensor out = Tensor::empty({bytes}, DType::u8);
      const std::vector<int64_t> counts(16, bytes / 16);
      world.all_to_all_v(out, counts, in, counts, {.algorithm = algorithm, .node = 8});
    });
  };
  for (const int64_t bytes : {1 << 12, 1 << 20, 1 << 28}) {
    const double closed = all_to_all_v_hierarchical_seconds(16, static_cast<double>(bytes), 8,
                                                            inside_node(), between_nodes());
    const double two_hops = timed(Algorithm::hierarchical, bytes);
    CHECK(std::abs(two_hops - closed) <= 1e-9 * closed);
    const double pairwise =
        all_to_all_pairwise_seconds(16, static_cast<double>(bytes), between_nodes());
    CHECK(std::abs(timed(Algorithm::pairwise, bytes) - pairwise) <= 1e-9 * pairwise);
    CHECK(two_hops < pairwise);
  }
}
