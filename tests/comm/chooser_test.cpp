#include "yotta/comm/chooser.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/message_of.hpp"
#include "yotta/comm/channel.hpp"

using namespace yotta;

TEST_CASE("small arrays: few messages; large ones: few bytes; between nodes: the hierarchy") {
  const Cluster node = cluster_named("h100x8"), two = cluster_named("h100x16");
  CHECK(all_reduce_times(node, 8, 64)[0].algorithm == Algorithm::recursive_doubling);
  const std::vector<AllReduceTime> large = all_reduce_times(node, 8, 1 << 28);
  CHECK(large[0].algorithm == Algorithm::rabenseifner);  // as few bytes as the ring, fewer messages
  CHECK(large[1].algorithm == Algorithm::ring);
  CHECK(large.back().algorithm == Algorithm::naive);
  CHECK(all_reduce_times(node, 7, 1 << 28)[0].algorithm == Algorithm::ring);
  CHECK(all_reduce_times(two, 16, 1 << 24)[0].algorithm == Algorithm::hierarchical);
  CHECK(all_reduce_times(two, 16, 64)[0].algorithm == Algorithm::recursive_doubling);
  const std::vector<AllReduceTime> times = all_reduce_times(two, 16, 1 << 20);
  CHECK(times.size() == 8);
  CHECK(all_reduce_times(two, 12, 1 << 20).size() == 6);  // uneven nodes: no hierarchy
  CHECK(all_reduce_times(node, 8, 1 << 20).size() == 5);
  for (size_t i = 1; i < times.size(); ++i) CHECK(times[i - 1].seconds <= times[i].seconds);
}

TEST_CASE("large arrays between nodes: every card at work, for all_reduce and for its halves") {
  const Cluster two = cluster_named("h100x16");
  const int64_t bytes = 1 << 30;
  const std::vector<AlgorithmTime> reduced = all_reduce_times(two, 16, bytes);
  CHECK(reduced[0].algorithm == Algorithm::pipelined);
  CHECK(reduced[1].algorithm == Algorithm::multi_rail);
  CHECK(reduced[2].algorithm == Algorithm::hierarchical);
  for (const std::vector<AlgorithmTime>& times :
       {all_gather_times(two, 16, bytes), reduce_scatter_times(two, 16, bytes)}) {
    CHECK(times.size() == 4);
    CHECK(times[0].algorithm == Algorithm::multi_rail);
    const CommOptions options = fastest(times, two, 16);
    CHECK(options.algorithm == Algorithm::multi_rail);
    CHECK(options.node == 8);
  }
  CHECK(fastest(all_gather_times(two, 4, 64), two, 4).node == 4);
  CHECK(yotta_test::contains(yotta_test::message_of([&] { fastest({}, two, 4); }),
                             "nothing to choose from"));
}

TEST_CASE("the crossover of recursive doubling and the ring is where their closed forms meet") {
  const Cluster node = cluster_named("h100x8");
  const double alpha = node.levels[0].alpha, beta = node.levels[0].beta;
  for (const int p : {4, 8}) {
    const double lg = ceil_log2(p), messages = 2 * (p - 1);
    const double expected = (messages - lg) * alpha / ((lg - messages / p) * beta);
    const auto found =
        static_cast<double>(crossover(node, p, {Algorithm::recursive_doubling}, {Algorithm::ring}));
    CHECK(std::abs(found - expected) <= p);  // chunks are whole bytes
  }
  CHECK(yotta_test::contains(yotta_test::message_of([&] {
                               crossover(node, 8, {Algorithm::recursive_doubling},
                                         {Algorithm::naive});
                             }),
                             "do not cross on h100x8"));
}

TEST_CASE("the crossover, drawn: below it few messages are faster, above it few bytes") {
  const Cluster node = cluster_named("h100x8");
  const std::string picture =
      times_picture(node, 8, {{Algorithm::recursive_doubling}, {Algorithm::ring}});
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = picture.find('\n', begin)) != picture.npos; begin = end + 1)
    lines.push_back(picture.substr(begin, end - begin));
  REQUIRE(lines.size() == 14 + 2 + 2);
  CHECK(yotta_test::contains(lines[0], "7.161 ms │"));  // recursive doubling, 1 GiB
  CHECK(yotta_test::contains(lines[13], "  3 us │"));   // and 64 B
  // The row of a letter in the column of a size; the lower one, the faster.
  const auto row = [&](char letter, int size) {
    int found = -1;
    for (int y = 0; y < 14; ++y) {
      const size_t at = 14 + 2 * static_cast<size_t>(size - 6);  // the frame has 3 bytes
      const std::string& line = lines[static_cast<size_t>(y)];
      if (at < line.size() && (line[at] == letter || line[at] == '*')) found = y;
    }
    return found;
  };
  const auto crossing =
      static_cast<double>(crossover(node, 8, {Algorithm::recursive_doubling}, {Algorithm::ring}));
  for (int size = 6; size <= 30; ++size) {
    CAPTURE(size);
    const int doubling = row('a', size), ring = row('b', size);
    CHECK((doubling >= 0 && ring >= 0));
    CHECK((std::pow(2, size) < crossing ? doubling >= ring : doubling <= ring));
  }
  CHECK(row('a', 10) > row('b', 10));
  CHECK(row('a', 30) < row('b', 30));
  CHECK(yotta_test::contains(picture, "a recursive doubling\n"));
}
