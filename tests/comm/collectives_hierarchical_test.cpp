#include "yotta/comm/collectives_hierarchical.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"
#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE(
    "hierarchical all_reduce: values, messages and bytes, for nodes of 1, 2, 3, 4 and all ranks") {
  for (const int wanted : {1, 2, 3, 4, 8}) {
    const auto node = [=](int p) { return p % wanted == 0 ? wanted : p; };
    check_all_reduce(
        [&](Channel& channel, Data data, ReduceOp op) {
          all_reduce_hierarchical(channel, data, op, node(channel.size()));
        },
        [&](int p, int rank, int64_t n, int64_t width) {
          return all_reduce_hierarchical_sent(p, rank, n, width, node(p));
        });
  }
}

TEST_CASE("nodes that do not divide the ranks are refused") {
  const std::string text = message_of([] {
    run_ranks(6, [](Communicator& world) {
      std::vector<float> x(6);
      world.all_reduce(x, ReduceOp::sum, {Algorithm::hierarchical, nullptr, 4});
    });
  });
  CHECK(contains(text, "needs nodes of equal size; 4 does not divide 6"));
}

TEST_CASE(
    "its time is that of the closed form; it wins between nodes, and inside one it is the ring") {
  const Cluster two = cluster_named("h100x16");
  const auto link = [&](int level) {
    const Level& l = two.levels[static_cast<size_t>(level)];
    return AlphaBeta{l.alpha, l.beta, 0};
  };
  const auto seconds = [&](int p, int64_t n, CommOptions options) {
    return run_on(two, p,
                  [&](Communicator& world) {
                    const DeviceScope meta(Device::meta);
                    Tensor x = Tensor::empty({n});
                    world.all_reduce(x, ReduceOp::sum, options);
                  })
        .seconds();
  };
  for (const int64_t n : {16, 16 << 10, 16 << 20}) {
    const double hierarchical = seconds(16, n, {Algorithm::hierarchical}),
                 bytes = 4.0 * static_cast<double>(n);
    const double ring = seconds(16, n, {Algorithm::ring});
    const double closed = all_reduce_hierarchical_seconds(16, bytes, 8, link(0), link(1));
    CHECK(std::abs(hierarchical - closed) <= 1e-12 * closed);
    CHECK(hierarchical < ring / 3);
    CHECK(seconds(8, n, {Algorithm::hierarchical}) == seconds(8, n, {Algorithm::ring}));
  }
}
