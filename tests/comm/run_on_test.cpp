#include "yotta/comm/run_on.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/collectives_ring.hpp"

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
  CHECK(run_on(c, 2, body(true), {.share = false}).seconds() == split + 2);
  CHECK(run_on(c, 2, body(true)).seconds() == split + 4);  // side by side, each with half of a port
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

TEST_CASE("waiting for a send holds compute until that message has left, not those behind it") {
  const Timed run = run_on(ideal(2, 1, 1), 2, [](Communicator& world) {  // 1 byte per second
    std::vector<float> a(1), b(2);
    if (world.rank() == 1) {
      world.recv(a, 0);
      return world.recv(b, 0);
    }
    Work first = world.send_async(a, 1), second = world.send_async(b, 1);
    first.wait();
    CHECK(context().clock->now(compute_lane).end == 4);
    second.wait();
    CHECK(context().clock->now(compute_lane).end == 12);
  });
  CHECK(run.seconds() == 12);
}

TEST_CASE("too few chips are refused; an error of a rank is that of run_ranks") {
  CHECK(contains(message_of([] { run_on(cluster_named("h100x8"), 9, [](Communicator&) {}); }),
                 "h100x8 has 8 chips, too few for 9 ranks"));
  CHECK_THROWS_AS(run_on(ideal(), 2, [](Communicator&) { throw std::runtime_error("x"); }),
                  RankFailed);
}

TEST_CASE(
    "reducing is charged to the lane of the collective that reduces, also when two take turns") {
  Cluster c = ideal(4, 1, 8);  // 1 FLOP/s, 8 bytes/s
  c.gamma = 0.25;
  const AlphaBeta link{0, 1 / 8.0, 0.25};
  const double one = all_reduce_ring_seconds(4, 32, link),
               two = all_reduce_ring_seconds(4, 64, link);
  std::vector<double> apart(4);
  const Timed run = run_on(c, 4, [&](Communicator& world) {
    Communicator again = world.split(0, world.rank());
    const double start = context().clock->now(compute_lane).end;
    std::vector<float> x(8), y(16);
    Work a = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
    Work b = again.all_reduce_async(y, ReduceOp::sum, {Algorithm::ring});
    charge({"work", DType::f32, 1, 0, 0});
    a.wait();
    CHECK(context().clock->now(compute_lane).end == start + one);
    b.wait();
    apart[static_cast<size_t>(world.rank())] = context().clock->now(compute_lane).end - start;
    CHECK(context().lane == compute_lane);
  });
  CHECK(apart == std::vector<double>(4, two));
  CHECK(one < two);
}

TEST_CASE("what a run depends on threads for is refused: done(), and receiving from anybody") {
  CHECK(contains(message_of([] {
                   run_on(ideal(), 2, [](Communicator& world) {
                     std::vector<float> x(4);
                     Work work = world.all_reduce_async(x);
                     work.done();
                   });
                 }),
                 "done() has no answer under a virtual clock"));
  CHECK(contains(message_of([] {
                   run_on(ideal(), 2, [](Communicator& world) {
                     std::vector<float> x(4);
                     world.recv(x, -1);
                   });
                 }),
                 "the other rank is -1"));
}

TEST_CASE("a message says which kind of collective it belongs to, whatever its label") {
  const Trace trace = run_on(cluster_named("h100x8"), 4, [](Communicator& world) {
                        std::vector<float> all(8), other(8), part(2);
                        const CommOptions label{.label = "label"};
                        world.broadcast(all, 0, label);
                        world.all_reduce(all, ReduceOp::sum, label);
                        world.reduce_scatter(part, all, ReduceOp::sum, label);
                        world.all_gather(all, part, label);
                        world.all_to_all(other, all, label);
                        world.gather(all, part, 1, label);
                        world.send(part, world.rank() ^ 1);
                        world.recv(part, world.rank() ^ 1);
                      }).trace;
  std::vector<Communication> kinds;  // of what rank 0 sends
  for (const TraceEvent& event : trace.ranks[0])
    if (event.kind == EventKind::send && (kinds.empty() || kinds.back() != event.communication))
      kinds.push_back(event.communication);
  using enum Communication;
  CHECK(kinds == std::vector{broadcast, all_reduce, reduce_scatter, all_gather, all_to_all,
                             collective, message});
}

TEST_CASE("data on meta is sent, counted and timed like any other") {
  const auto body = [](Device device) {
    return [device](Communicator& world) {
      const DeviceScope scope(device);
      Tensor all = Tensor::zeros({1000}), other = Tensor::zeros({1000}),
             part = Tensor::zeros({250});
      world.all_reduce(all, ReduceOp::mean);
      world.all_reduce(all, ReduceOp::mean, {Algorithm::rabenseifner});
      world.reduce_scatter(part, all);
      world.all_gather(all, part);
      world.all_to_all(other, all);
      world.broadcast(all, 1);
      world.reduce(all, 1);
      world.gather(all, part, 2);
      world.scatter(part, all, 3);
      world.send_recv(all, (world.rank() + 1) % 4, other, (world.rank() + 3) % 4);
      world.send(all, world.rank() ^ 1);
      world.recv(other, world.rank() ^ 1);
      world.all_reduce_async(all).wait();
      Work out = world.send_async(all, world.rank() ^ 2);
      world.recv_async(other, world.rank() ^ 2).wait();
      out.wait();
    };
  };
  const Timed real = run_on(cluster_named("h100x8"), 4, body(Device::cpu));
  const Timed meta = run_on(cluster_named("h100x8"), 4, body(Device::meta));
  CHECK(real.seconds() > 0);
  CHECK(meta.trace == real.trace);
  CHECK(meta.ends == real.ends);
  for (int rank = 0; rank < 4; ++rank) {
    const auto i = static_cast<size_t>(rank);
    const Traffic a = real.reports[i].ledger().total_traffic(),
                  b = meta.reports[i].ledger().total_traffic();
    CHECK(a.bytes_sent == b.bytes_sent);
    CHECK(a.messages_received == b.messages_received);
    CHECK(real.reports[i].ledger().memory()->peak() == meta.reports[i].ledger().memory()->peak());
  }
  CHECK(contains(message_of([] {
                   run_ranks(2, [](Communicator& world) {
                     const DeviceScope scope(world.rank() == 0 ? Device::cpu : Device::meta);
                     Tensor x = Tensor::zeros({4});
                     world.rank() == 0 ? world.send(x, 1) : world.recv(x, 0);
                   });
                 }),
                 "receives 4 f32 on meta"));
}
