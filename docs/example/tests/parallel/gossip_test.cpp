#include "yotta/parallel/gossip.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/compare.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

constexpr int64_t n = 17;

// What rank `rank` starts with.
Numbers start(int rank) {
  const Random random(32, "rank " + std::to_string(rank));
  Numbers numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(random.normal(static_cast<uint64_t>(i)));
  return numbers;
}

// What every rank has after so many rounds, computed without ranks.
std::vector<Numbers> serial(int p, int rounds) {
  std::vector<Numbers> all;
  for (int rank = 0; rank < p; ++rank) all.push_back(start(rank));
  for (int round = 0; round < rounds; ++round) {
    const std::vector<Numbers> before = all;
    for (int rank = 0; rank < p; ++rank)
      for (size_t i = 0; i < n; ++i) {
        const auto at = [&](int r) { return before[static_cast<size_t>(wrap(r, p))][i]; };
        all[static_cast<size_t>(rank)][i] = (at(rank - 1) + at(rank) + at(rank + 1)) / 3;
      }
  }
  return all;
}

// The same on p ranks; rank r's reports and numbers.
struct Run {
  std::vector<RankReport> reports;
  std::vector<Numbers> numbers;
};
Run run(int p, int rounds) {
  Run result{{}, std::vector<Numbers>(static_cast<size_t>(p))};
  result.reports = run_ranks(p, [&](Communicator& world) {
    Tensor x = Tensor::from(start(world.rank()), {n});
    gossip(x, world, rounds);
    result.numbers[static_cast<size_t>(world.rank())] = x.values();
  });
  return result;
}

}  // namespace

TEST_CASE("gossip on p ranks is what one program computes for all of them") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int rounds : {0, 1, 5}) {
      CAPTURE(p);
      CAPTURE(rounds);
      const std::vector<Numbers> actual = run(p, rounds).numbers, expected = serial(p, rounds);
      for (size_t rank = 0; rank < actual.size(); ++rank) {
        const Verdict verdict = compare(actual[rank], expected[rank], 1e-12, {});
        CHECK_MESSAGE(verdict.equal, verdict.text);
      }
    }
}

TEST_CASE("gossip: the distance from the mean shrinks by the factor per round") {
  for (const int p : {2, 3, 4, 8}) {
    CAPTURE(p);
    Numbers mean(n);
    for (int rank = 0; rank < p; ++rank)
      for (size_t i = 0; i < n; ++i) mean[i] += start(rank)[i] / p;
    const auto distance = [&](int rounds) {
      double squares = 0;
      for (const Numbers& numbers : run(p, rounds).numbers)
        for (size_t i = 0; i < n; ++i) squares += std::pow(numbers[i] - mean[i], 2);
      return std::sqrt(squares);
    };
    CHECK(distance(6) <= std::pow(gossip_factor(p), 6) * distance(0) + 1e-12);
  }
  CHECK(gossip_factor(3) == doctest::Approx(0));  // everybody is everybody's neighbour
  CHECK(gossip_factor(8) == doctest::Approx(0.804738));
}

TEST_CASE("gossip sends what its formula says") {
  for (const int p : {1, 2, 5})
    for (const RankReport& report : run(p, 3).reports) {
      const Traffic traffic = report.ledger().total_traffic();
      CHECK(traffic.bytes_sent == gossip_bytes_sent(p, 3, n * 8));
      CHECK(traffic.messages_sent == (p == 1 ? 0 : 6));
    }
}
