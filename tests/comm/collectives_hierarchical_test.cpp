#include "yotta/comm/collectives_hierarchical.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"
#include "comm/two_nodes.hpp"
#include "support/message_of.hpp"
#include "support/ranks_here.hpp"
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

TEST_CASE("its halves: values, messages and bytes, for nodes of 1, 2, 3, 4 and all ranks") {
  for (const int wanted : {1, 2, 3, 4, 8}) {
    const auto node = [=](int p) { return p % wanted == 0 ? wanted : p; };
    check_reduce_scatter(
        [&](Channel& channel, ConstData in, Data out, ReduceOp op) {
          reduce_scatter_hierarchical(channel, in, out, op, node(channel.size()));
        },
        [&](int p, int rank, int64_t n, int64_t width) {
          return reduce_scatter_hierarchical_sent(p, rank, n, width, node(p));
        });
    check_all_gather(
        [&](Channel& channel, ConstData in, Data out) {
          all_gather_hierarchical(channel, in, out, node(channel.size()));
        },
        [&](int p, int rank, int64_t n, int64_t width) {
          return all_gather_hierarchical_sent(p, rank, n, width, node(p));
        });
  }
}

TEST_CASE("the halves through the communicator, on 16 ranks; their times are half of the whole") {
  const Case c{16, 1001};
  const CommOptions options{Algorithm::hierarchical};
  if (enough_ranks(16))
    run_ranks(16, [&](Communicator& world) {
      const int r = world.rank();
      Tensor all = empty(c.n, c.dtype), part = empty(c.chunk(r), c.dtype);
      world.all_gather(all, c.values(0, c.begin(r), c.begin(r + 1)), options);
      world.reduce_scatter(part, c.input(r), ReduceOp::sum, options);
      expect(all, c.input(0).values(), r);
      expect(part, c.reduced(c.begin(r), c.begin(r + 1)), r);
    });
  const double bytes = 1 << 28;
  for (const bool gathers : {false, true}) {
    const double timed = seconds_on_two_nodes(16, [&](Communicator& world) {
      const DeviceScope meta(Device::meta);
      Tensor whole = Tensor::empty({1 << 28}, DType::u8),
             mine = Tensor::empty({1 << 24}, DType::u8);
      if (gathers)
        world.all_gather(whole, mine, options);
      else
        world.reduce_scatter(mine, whole, ReduceOp::sum, options);
    });
    const double closed =
        gathers ? all_gather_hierarchical_seconds(16, bytes, 8, inside_node(), between_nodes())
                : reduce_scatter_hierarchical_seconds(16, bytes, 8, inside_node(), between_nodes());
    CHECK(std::abs(timed - closed) <= 1e-9 * closed);
    CHECK(closed ==
          doctest::Approx(
              all_reduce_hierarchical_seconds(16, bytes, 8, inside_node(), between_nodes()) / 2));
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
