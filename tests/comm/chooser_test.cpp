#include "yotta/comm/chooser.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;

TEST_CASE("small arrays: few messages; large ones: few bytes; between nodes: the hierarchy") {
  const Cluster node = cluster_named("h100x8"), two = cluster_named("h100x16");
  CHECK(all_reduce_times(node, 8, 64)[0].algorithm == Algorithm::recursive_doubling);
  const std::vector<AllReduceTime> large = all_reduce_times(node, 8, 1 << 28);
  CHECK(large[0].algorithm == Algorithm::rabenseifner);  // as few bytes as the ring, fewer messages
  CHECK(large[1].algorithm == Algorithm::ring);
  CHECK(large.back().algorithm == Algorithm::naive);
  CHECK(all_reduce_times(node, 7, 1 << 28)[0].algorithm == Algorithm::ring);
  CHECK(all_reduce_times(two, 16, 1 << 28)[0].algorithm == Algorithm::hierarchical);
  CHECK(all_reduce_times(two, 16, 64)[0].algorithm == Algorithm::recursive_doubling);
  const std::vector<AllReduceTime> times = all_reduce_times(two, 16, 1 << 20);
  CHECK(times.size() == 6);
  for (size_t i = 1; i < times.size(); ++i) CHECK(times[i - 1].seconds <= times[i].seconds);
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
