#include "yotta/comm/collectives_pipelined.hpp"

#include <doctest/doctest.h>

#include "comm/collective_cases.hpp"
#include "comm/two_nodes.hpp"
#include "support/message_of.hpp"
#include "support/ranks_here.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("pipelined all_reduce: values, messages and bytes, for nodes and segments of all sizes") {
  struct Shape {
    int wanted, segments;  // ranks of a node, if they divide p
  };
  for (const auto [wanted, segments] :
       {Shape{1, 2}, Shape{2, 1}, Shape{2, 5}, Shape{3, 2}, Shape{4, 5}, Shape{8, 1}}) {
    CAPTURE(wanted);
    CAPTURE(segments);
    const auto node = [wanted](int p) { return p % wanted == 0 ? wanted : p; };
    check_all_reduce(
        [&](Channel& channel, Data data, ReduceOp op) {
          all_reduce_pipelined(channel, data, op, node(channel.size()), segments);
        },
        [&](int p, int rank, int64_t n, int64_t width) {
          return all_reduce_pipelined_sent(p, rank, n, width, node(p), segments);
        });
  }
}

TEST_CASE("through the communicator, with segments by size, on up to 16 ranks") {
  for (const int p : ranks_here({1, 2, 4, 8, 16})) {
    const Case c{p, 1001};
    const CommOptions options{Algorithm::pipelined, "measured", std::min(p, 4)};
    const auto reports = run_ranks(p, [&](Communicator& world) {
      Tensor x = c.input(world.rank());
      world.all_reduce_async(x, ReduceOp::sum, options).wait();
      expect(x, c.reduced(0, c.n), world.rank());
    });
    for (int rank = 0; rank < p; ++rank) {
      const Traffic sent = reports[static_cast<size_t>(rank)].ledger().traffic("measured");
      const Sent formula = all_reduce_pipelined_sent(p, rank, c.n, 4, std::min(p, 4), 1);
      CHECK(sent.messages_sent == formula.messages);
      CHECK(sent.bytes_sent == formula.bytes);
    }
  }
  CHECK(pipeline_segments(1 << 20) == 1);
  CHECK(pipeline_segments(int64_t{1} << 30) == 32);
  CHECK(pipeline_segments(int64_t{1} << 40) == 32);
}

TEST_CASE("1 GiB on 16 H100: 6.9 ms one phase after the other, 4.5 with both links at work") {
  const double bytes = 1 << 30;
  const double plain = seconds_of_all_reduce(1 << 30, {Algorithm::hierarchical});
  const double pipelined = seconds_of_all_reduce(1 << 30, {Algorithm::pipelined});
  const double of_plain =
      all_reduce_hierarchical_seconds(16, bytes, 8, inside_node(), between_nodes());
  const double of_pipelined =
      all_reduce_pipelined_seconds(16, bytes, 8, 32, inside_node(), between_nodes());
  CHECK(std::abs(plain - of_plain) <= 1e-9 * of_plain);
  CHECK(std::abs(pipelined - of_pipelined) <= 0.001 * of_pipelined);  // parts do not divide
  CHECK(std::abs(plain - 6.9e-3) <= 0.05 * 6.9e-3);
  // The slower link alone, here the one inside the node, and no more than a fifth on top.
  const double inside = 2.0 * 7 / 8 * bytes / 450e9;
  CHECK((pipelined > inside && pipelined < 1.2 * inside));
  CHECK(seconds_of_all_reduce(1 << 20, {Algorithm::pipelined}) >
        seconds_of_all_reduce(1 << 20, {Algorithm::hierarchical}));  // latency
}

TEST_CASE("nodes that do not divide the ranks are refused by the pipelined all_reduce") {
  const std::string text = message_of([] {
    run_ranks(6, [](Communicator& world) {
      std::vector<float> x(6);
      world.all_reduce(x, ReduceOp::sum, {Algorithm::pipelined, nullptr, 4});
    });
  });
  CHECK(contains(text, "needs nodes of equal size; 4 does not divide 6"));
}
