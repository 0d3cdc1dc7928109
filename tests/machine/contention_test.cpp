#include "yotta/machine/contention.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/critical_path.hpp"

using namespace yotta;

namespace {

using C = Communicator;
void compute(double seconds) { charge({"work", DType::f32, seconds, 0, 0}); }

// 1 byte/s and 0.5 s inside nodes of 2 and between them; two racks of 4 chips behind uplinks of 1
// byte/s: 1:4.
Cluster machine() {
  Cluster c = ideal();
  c.levels = {{"node", 2, 0.5, 1}, {"rack", 4, 0.5, 1}, {"all", 8, 0.5, 4}};
  return c;
}
template <class Body>
Timed record(int p, Body body) {
  return run_on(machine(), p, body, {.joins = true});
}
// Seconds by the clock, and when wires are shared.
struct Both {
  double alone, shared;
};
template <class Body>
Both both(int p, Body body) {
  const Timed run = record(p, body);
  return {run.seconds(), seconds(replay(run.trace, machine()))};
}
void all_reduce(C& comm, int64_t bytes) {
  std::vector<uint8_t> x(static_cast<size_t>(bytes));
  comm.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
}

}  // namespace

TEST_CASE("a message leaves by its port and goes up and down as far as it must") {
  const Cluster c = llama3_24k();
  Wires wires(c);
  CHECK(wires.route(5, 5).empty());
  CHECK(wires.route(0, 7).size() == 2);
  CHECK(wires.route(0, 8).size() == 4);
  CHECK(wires.route(0, 16).size() == 6);
  const std::vector<int> far = wires.route(0, 24575), near = wires.route(0, 3072);
  CHECK(far.size() == 8);
  CHECK(far[0] == near[0]);                                // the same port out
  CHECK(wires.capacity(far[0]) == doctest::Approx(50e9));  // not its share of the uplink
  CHECK(far[6] == near[6]);                                // the same uplink of pod 0
  CHECK(wires.capacity(far[6]) == doctest::Approx(3072 * 50e9 / 7));
  CHECK(wires.route(8, 0)[0] != wires.route(0, 8)[0]);
  CHECK(wires.capacity(wires.route(0, 7)[0]) == doctest::Approx(450e9));
}

TEST_CASE("hops of a torus are wires of their own, the shorter way round") {
  const Cluster ring = torus(chip_named("v5p"), {8}), cube = torus(chip_named("v5p"), {4, 4, 4});
  Wires wires(ring), cubic(cube);
  CHECK(wires.route(0, 3).size() == 3);
  CHECK(wires.route(0, 6).size() == 2);
  CHECK(wires.route(2, 3)[0] == wires.route(0, 3)[2]);
  CHECK(wires.route(3, 2)[0] != wires.route(2, 3)[0]);
  CHECK(wires.route(4, 4).empty());
  CHECK(cubic.route(0, 42).size() == 6);
}

TEST_CASE("rates are max-min fair") {
  const Cluster c = ideal(8, 1, 1);  // one byte per second in and out of each chip
  Wires wires(c);
  std::vector<Flow> flows;
  for (const auto& [from, to] : {std::pair{0, 1}, {0, 2}, {0, 3}, {4, 2}, {5, 6}})
    flows.push_back({{}, 1, wires.route(from, to)});
  share_wires(flows, wires);
  for (const size_t i : {0, 1, 2}) CHECK(flows[i].rate == doctest::Approx(1.0 / 3));
  CHECK(flows[3].rate == doctest::Approx(2.0 / 3));  // what 0 to 2 leaves of chip 2's port
  CHECK(flows[4].rate == 1);
  const Cluster racks = machine();
  Wires uplink(racks);
  std::vector<Flow> four;
  for (int from = 0; from < 4; ++from) four.push_back({{}, 1, uplink.route(from, from + 4)});
  share_wires(four, uplink);
  for (const Flow& flow : four) CHECK(flow.rate == 0.25);
}

TEST_CASE("with nothing shared a replay changes no time") {
  const Timed run = record(4, [](C& world) {
    C pair = world.split(world.rank() / 2, 0);
    compute(0.25 * world.rank());
    all_reduce(world, 16);
    all_reduce(pair, 7);
    std::vector<uint8_t> x(3);
    Work out = world.send_async(x, world.rank() ^ 1);
    std::vector<uint8_t> y(3);
    world.recv(y, world.rank() ^ 1);
    out.wait();
    compute(1);
    world.barrier();
  });
  const Trace again = replay(run.trace, machine());
  for (int rank = 0; rank < 4; ++rank)
    CHECK(seconds(again, rank) == doctest::Approx(run.seconds(rank)).epsilon(1e-12).scale(0));
  double at = 0;
  for (const EventId id : critical_path(again)) {
    CHECK(again.at(id).begin == doctest::Approx(at).epsilon(1e-12));
    at = again.at(id).end;
  }
  CHECK(at == seconds(again));
}

TEST_CASE("two collectives side by side share the ports: each takes twice as long") {
  const Both times = both(4, [](C& world) {
    C again = world.split(0, world.rank());
    world.barrier();
    std::vector<uint8_t> x(4000), y(4000);
    Work a = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
    Work b = again.all_reduce_async(y, ReduceOp::sum, {Algorithm::ring});
    a.wait();
    b.wait();
  });
  CHECK(times.alone == doctest::Approx(6000).epsilon(0.02));
  CHECK(times.shared == doctest::Approx(12000).epsilon(0.02));
}

TEST_CASE("messages that meet at one chip share its port") {
  const Both times = both(4, [](C& world) {
    std::vector<uint8_t> x(30);
    if (world.rank() > 0) return world.send(x, 0);
    std::vector<std::vector<uint8_t>> in(3, x);
    std::vector<Work> works;
    for (int from = 1; from < 4; ++from)
      works.push_back(world.recv_async(in[static_cast<size_t>(from) - 1], from));
    for (Work& work : works) work.wait();
  });
  CHECK(times.alone == 30.5);
  // Rank 1 comes over the node's port, 2 and 3 over the other one.
  CHECK(times.shared == doctest::Approx(60.5));
}

TEST_CASE("an oversubscribed uplink: one message may have all of it, four share it") {
  const auto cross = [](int senders) {
    return [senders](C& world) {
      std::vector<uint8_t> x(10);
      const int rank = world.rank();
      if (rank < senders) world.send(x, rank + 4);
      if (rank >= 4 && rank < 4 + senders) world.recv(x, rank - 4);
    };
  };
  for (const auto& [senders, shared] : {std::pair{1, 10.5}, {2, 20.5}, {4, 40.5}}) {
    const Both times = both(8, cross(senders));
    CHECK(times.alone == 40.5);  // the clock always charges a chip's share
    CHECK(times.shared == doctest::Approx(shared));
  }
}

TEST_CASE("a wait that took no time may take some when wires are shared") {
  const Both times = both(2, [](C& world) {
    C again = world.split(0, world.rank());
    world.barrier();
    std::vector<uint8_t> x(20), y(20);
    Work a = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
    Work b = again.all_reduce_async(y, ReduceOp::sum, {Algorithm::ring});
    compute(25);  // hides 21 seconds of communication, not 41
    a.wait();
    b.wait();
    compute(1);
  });
  CHECK(times.shared - times.alone == doctest::Approx(41 - 25));
}

TEST_CASE("mirrored ranks are refused") {
  const Timed run = run_on(machine(), 1,
                           [](C& world) {
                             world.mirrored({0, 1}).barrier();
                           },
                           {.joins = true});
  CHECK(yotta_test::contains(yotta_test::message_of([&] { replay(run.trace, machine()); }),
                             "needs all ranks alive"));
}
