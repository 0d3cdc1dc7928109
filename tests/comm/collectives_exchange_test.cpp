#include "yotta/comm/collectives_exchange.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("pairwise all_to_all") {
  check_all_to_all(all_to_all_pairwise, all_to_all_pairwise_sent);
}

TEST_CASE("uneven all_to_all: rank i sends (i + 2j) mod 5 numbers to rank j") {
  const auto count = [](int from, int to) { return int64_t{(from + 2 * to) % 5}; };
  const auto value = [](int from, int to, int64_t i) {
    return 100 * from + 10 * to + static_cast<int>(i);
  };
  for (const int p : rank_counts) {
    const std::vector<Sent> sent = LocalRanks::run(p, [&](LocalRanks::Rank& rank) {
      std::vector<int64_t> in_counts, out_counts;
      std::vector<int32_t> in, expected;
      for (int other = 0; other < p; ++other) {
        in_counts.push_back(count(rank.rank(), other));
        out_counts.push_back(count(other, rank.rank()));
        for (int64_t i = 0; i < in_counts.back(); ++i) in.push_back(value(rank.rank(), other, i));
        for (int64_t i = 0; i < out_counts.back(); ++i)
          expected.push_back(value(other, rank.rank(), i));
      }
      std::vector<int32_t> out(expected.size(), -1);
      all_to_all_v_pairwise(rank, in, in_counts, out, out_counts);
      if (out != expected)
        fail(Where::current(), "rank {} of {} has other numbers", rank.rank(), p);
      if (all_to_all_v_pairwise_sent(rank.rank(), in_counts, 4) != rank.sent())
        fail(Where::current(), "rank {} of {}: {} bytes", rank.rank(), p, rank.sent().bytes);
    });
    CHECK(sent[0].messages == p - 1);
  }
}
