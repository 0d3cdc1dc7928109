#include "yotta/comm/run_on.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

TEST_CASE("values are real, times are the machine's") {
  Cluster c = ideal(4, 100, 4);  // 100 FLOP/s, 4 bytes/s
  std::vector<float> sums(4);
  const Timed run = run_on(c, 4, [&](Communicator& world) {
    charge({"work", DType::f32, 100.0 * (1 + world.rank()), 0, 0});
    std::vector<float> x(4, static_cast<float>(world.rank()));
    world.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
    sums[static_cast<size_t>(world.rank())] = x[0];
  });
  CHECK(sums == std::vector<float>(4, 6));
  CHECK(run.seconds() == 4 + 6);
  CHECK(run.seconds(0) == 10);
  CHECK(run.busy_share(0) == doctest::Approx(0.1));
  CHECK(run.idle_share(3) == doctest::Approx(0.6));
  CHECK(run.reports[2].ledger().traffic("all_reduce").messages_sent == 6);
}

TEST_CASE("communicators side by side have lanes of their own; one is a queue") {
  const auto body = [](bool two) {
    return [two](Communicator& world) {
      Communicator again = world.split(0, world.rank());
      std::vector<float> x(2), y(2);
      Work a = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
      Work b = (two ? again : world).all_reduce_async(y, ReduceOp::sum, {Algorithm::ring});
      b.wait();
      a.wait();
    };
  };
  const Cluster c = ideal(2, 1, 4);
  const double split = run_on(c, 2, [](Communicator& w) { w.split(0, w.rank()); }).seconds();
  CHECK(run_on(c, 2, body(true)).seconds() == split + 2);
  CHECK(run_on(c, 2, body(false)).seconds() == split + 4);
}

TEST_CASE("a buffered send leaves the compute lane alone") {
  const Timed run = run_on(ideal(2, 1, 4), 2, [](Communicator& world) {
    std::vector<float> x(4);
    if (world.rank() == 0) {
      world.send(x, 1);
      charge({"next", DType::f32, 1, 0, 0});
    } else {
      world.recv(x, 0);
    }
  });
  CHECK(run.seconds(0) == 1);
  CHECK(run.seconds(1) == 4);
}

TEST_CASE("too few chips are refused; an error of a rank is that of run_ranks") {
  CHECK(contains(message_of([] { run_on(cluster_named("h100x8"), 9, [](Communicator&) {}); }),
                 "h100x8 has 8 chips, too few for 9 ranks"));
  CHECK_THROWS_AS(run_on(ideal(), 2, [](Communicator&) { throw std::runtime_error("x"); }),
                  RankFailed);
}
