#include "yotta/comm/start.hpp"

#include <doctest/doctest.h>

#include "support/longest_wait.hpp"
#include "yotta/comm/run_ranks.hpp"

using namespace yotta;

namespace {

// A counter in the memory that thread ranks share. One rank uses it, so nothing guards it.
struct PlainCounter : SharedCounter {
  int64_t value = 0;
  int reads = 0, writes = 0;
  int64_t read() override { return ++reads, value; }
  void write(int64_t to) override { ++writes, value = to; }
};

// Sends wait for their receiver, so an order that works by luck shows.
std::vector<RankReport> run(int p, const RankBody& body) {
  RunOptions options;
  options.buffered_sends = false;
  options.timeout = yotta_test::longest_wait;
  return run_ranks(p, body, options);
}

}  // namespace

TEST_CASE("mean_over_ranks is the mean, on every rank, at the price of a ring") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const size_t n : {0, 1, 7}) {
      std::vector<std::vector<float>> x(static_cast<size_t>(p));
      for (size_t r = 0; r < x.size(); ++r)
        for (size_t i = 0; i < n; ++i) x[r].push_back(static_cast<float>(10 * i + 2 * r));
      const auto reports = run(p, [&](Communicator& world) {
        mean_over_ranks(world, x[static_cast<size_t>(world.rank())]);
      });
      for (const std::vector<float>& mine : x)
        for (size_t i = 0; i < n; ++i)
          CHECK(mine[i] == static_cast<float>(static_cast<int>(10 * i) + p - 1));
      int64_t bytes = 0;
      for (const RankReport& report : reports) bytes += report.ledger().total_traffic().bytes_sent;
      CHECK(bytes == 2 * (p - 1) * static_cast<int64_t>(n * sizeof(float)));
    }
}

TEST_CASE("pass_right gives what the rank on the left has, in one message") {
  for (const int p : {1, 2, 3, 4, 8}) {
    std::vector<std::vector<float>> got(static_cast<size_t>(p));
    const auto reports = run(p, [&](Communicator& world) {
      const auto mine = static_cast<float>(world.rank());
      got[static_cast<size_t>(world.rank())] = pass_right(world, {mine, mine + 100});
    });
    for (int r = 0; r < p; ++r) {
      const auto left = static_cast<float>((r + p - 1) % p);
      CHECK(got[static_cast<size_t>(r)] == std::vector<float>{left, left + 100});
      CHECK(reports[static_cast<size_t>(r)].ledger().total_traffic().bytes_sent <= 8);
    }
  }
}

TEST_CASE("add_to_counter: one rank reads and writes once, and all know the new value") {
  for (const int p : {1, 2, 3, 4, 8}) {
    PlainCounter counter;
    counter.value = 100;
    std::vector<int64_t> returned(static_cast<size_t>(p));
    run(p, [&](Communicator& world) {
      returned[static_cast<size_t>(world.rank())] =
          add_to_counter(world, counter, 1 + world.rank());
    });
    CHECK(counter.value == 100 + p * (p + 1) / 2);
    CHECK(counter.reads == 1);
    CHECK(counter.writes == 1);
    for (const int64_t value : returned) CHECK(value == counter.value);
  }
}
