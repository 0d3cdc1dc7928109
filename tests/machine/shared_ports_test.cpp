#include "yotta/machine/shared_ports.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/comm/torus_rings.hpp"
#include "yotta/machine/critical_path.hpp"
#include "yotta/machine/ports.hpp"

using namespace yotta;

namespace {

using C = Communicator;
void compute(double seconds) { charge({"work", DType::f32, seconds, 0, 0}); }

// Nodes of 4 chips; 1 byte/s by each port, half a second of latency between nodes.
Cluster machine() {
  Cluster c = ideal(8);
  c.levels = {{"node", 4, 0, 1}, {"all", 8, 0.5, 1}};
  return c;
}
Work all_reduce(C& comm, Tensor& x) {
  return comm.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
}
Tensor bytes(int64_t n) {
  const DeviceScope meta(Device::meta);
  return Tensor::empty({n}, DType::u8);
}
template <class Body>
Timed run(int p, Body body, bool share = true, const Cluster& cluster = machine()) {
  return run_on(cluster, p, body, {.share = share});
}
void check_seconds(double actual, double expected) {
  CAPTURE(actual);
  CAPTURE(expected);
  CHECK(std::abs(actual - expected) <= 1e-9 * expected);
}
// When the recv of so many bytes ended on a rank.
double received(const Trace& trace, int rank, int64_t size, EventKind kind = EventKind::recv) {
  for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
    if (event.kind == kind && event.bytes == size) return event.end;
  return -1;
}

// Two communicators, point to point and compute; lanes meet now and then.
void busy_program(C& world) {
  C again = world.split(0, world.rank()), pair = world.split(world.rank() / 2, 0);
  Tensor x = bytes(24), y = bytes(40), z = bytes(7), in = bytes(11), out = bytes(11);
  for (int step = 0; step < 3; ++step) {
    compute(1 + 0.3 * world.rank() * step);
    Work a = all_reduce(world, x);
    Work b = again.all_gather_async(y, bytes(40 / world.size()), {Algorithm::ring});
    Work c = world.send_async(out, world.rank() ^ 1);
    pair.all_reduce(z);
    compute(2);
    world.recv(in, world.rank() ^ 1);
    a.wait();
    b.wait();
    c.wait();
  }
}

}  // namespace

TEST_CASE("two collectives of two communicators take twice as long, three take three times") {
  const double one = all_reduce_ring_seconds(4, 4000, {0, 1, 0});
  for (const int count : {1, 2, 3}) {
    const auto body = [&](C& world) {
      std::vector<C> comms;
      for (int i = 0; i < count; ++i) comms.push_back(world.split(0, world.rank()));
      world.barrier();
      Tensor x = bytes(4000);
      std::vector<Work> works;
      for (C& comm : comms) works.push_back(all_reduce(comm, x));
      for (Work& work : works) work.wait();
    };
    const double before = run(4, [&](C& world) {
                            for (int i = 0; i < count; ++i) world.split(0, world.rank());
                            world.barrier();
                          }).seconds();
    check_seconds(run(4, body).seconds(), before + count * one);
    check_seconds(run(4, body, false).seconds(), before + one);
  }
}

TEST_CASE("all_gather beside reduce_scatter, as FSDP has them: the ports carry both") {
  const auto body = [](C& world) {
    C gathers = world.split(0, world.rank()), scatters = world.split(0, world.rank());
    world.barrier();
    Tensor whole = bytes(4000), part = bytes(1000), gradient = bytes(8000), mine = bytes(2000);
    Work a = gathers.all_gather_async(whole, part, {Algorithm::ring});
    Work b = scatters.reduce_scatter_async(mine, gradient, ReduceOp::sum, {Algorithm::ring});
    a.wait();
    b.wait();
  };
  const Trace shared = run(4, body).trace, alone = run(4, body, false).trace;
  const double begin = seconds(alone) - 6000;
  check_seconds(seconds(shared) - begin, 3000 + 6000);
  for (int rank = 0; rank < 4; ++rank) {  // at half the rate until the shorter one has ended
    double gathered = 0;
    for (const TraceEvent& event : shared.ranks[static_cast<size_t>(rank)])
      if (event.kind == EventKind::recv && event.bytes == 1000)
        gathered = std::max(gathered, event.end);
    check_seconds(gathered - begin, 6000);
  }
}

TEST_CASE(
    "all_reduces of two axes share what both use: in a node its port, over nodes not the card") {
  // tp ranks side by side; those with the same place in tp are one of dp.
  const auto seconds = [](int p, int tp, bool gradients, bool activations) {
    const auto body = [=](C& world) {
      const int rank = world.rank();
      C inner = world.split(rank / tp, rank), outer = world.split(rank % tp, rank);
      world.barrier();
      Tensor x = bytes(4000), y = bytes(4000);
      Work a = gradients ? all_reduce(outer, x) : Work(),
           b = activations ? all_reduce(inner, y) : Work();
      a.wait();
      b.wait();
    };
    return run(p, body).seconds() - run(p, [=](C& world) {
                                      world.split(world.rank() / tp, world.rank());
                                      world.split(world.rank() % tp, world.rank());
                                      world.barrier();
                                    }).seconds();
  };
  check_seconds(seconds(8, 4, true, false), 2 * 0.5 + 4000);  // by the cards
  check_seconds(seconds(8, 4, true, true), 6000);             // hidden by the one in the node
  check_seconds(seconds(4, 2, true, false), 4000);
  check_seconds(seconds(4, 2, true, true), 8000);  // both in one node
}

TEST_CASE("a message that leaves later slows one that is under way, which no sender can know") {
  const auto body = [](C& world) {
    Tensor first = bytes(20), second = bytes(21);
    if (world.rank() == 0) {
      Work a = world.send_async(first, 1);
      compute(10);
      world.send(second, 2);
      a.wait();
    }
    if (world.rank() == 1) world.recv(first, 0);
    if (world.rank() == 2) world.recv(second, 0);
  };
  const Timed shared = run(4, body);
  check_seconds(shared.seconds(1), 30);  // ten seconds alone, twenty with half of the port
  check_seconds(shared.seconds(2), 41);
  check_seconds(run(4, body, false).seconds(1), 20);
}

TEST_CASE("one chip's ports: into the node, the card, and each way go side by side") {
  const auto body = [](C& world) {
    Tensor x = bytes(20), y = bytes(20), z = bytes(20);
    if (world.rank() == 0) {
      Work a = world.send_async(x, 1), b = world.send_async(y, 4);
      world.recv(z, 1);
      a.wait();
      b.wait();
    }
    if (world.rank() == 1) {
      Work a = world.send_async(z, 0);
      world.recv(x, 0);
      a.wait();
    }
    if (world.rank() == 4) world.recv(y, 0);
  };
  CHECK(run(8, body).trace == run(8, body, false).trace);
  check_seconds(run(8, body).seconds(), 20.5);
}

TEST_CASE("what comes from several ranks shares the port; left out: their senders are not slowed") {
  const auto body = [](C& world) {
    if (world.rank() > 0) {
      Tensor x = bytes(29 + world.rank());
      return world.send_async(x, 0).wait();
    }
    std::vector<Tensor> in;
    std::vector<Work> works;
    for (int from = 1; from < 4; ++from) in.push_back(bytes(29 + from));
    for (int from = 1; from < 4; ++from)
      works.push_back(world.recv_async(in[static_cast<size_t>(from) - 1], from));
    for (Work& work : works) work.wait();
  };
  const Trace shared = run(4, body).trace;
  check_seconds(received(shared, 0, 30), 90);
  check_seconds(received(shared, 0, 31), 92);
  check_seconds(seconds(shared), 93);
  check_seconds(received(shared, 3, 32, EventKind::send), 32);
  double path = 0;
  for (const EventId id : critical_path(shared)) path += shared.at(id).seconds();
  check_seconds(path, 93);
}

TEST_CASE("in a lane an exchange keeps its order, N beta apart, whatever the other lanes do") {
  Cluster c = ideal(4, 1, 1);
  c.levels[0].alpha = 1;
  const auto body = [](C& world) {
    const int rank = world.rank();
    Tensor extra = bytes(6), out = bytes(30), in = bytes(30);
    Work message = rank == 0   ? world.send_async(extra, 3)
                   : rank == 3 ? world.recv_async(extra, 0)
                               : Work();
    world.collective("both", [&](Channel& channel) {
      const ConstData outgoing(out);
      const Data incoming(in);
      const Exchange all[] = {{outgoing.part(0, 10), rank ^ 1, incoming.part(0, 10), rank ^ 1},
                              {outgoing.part(10, 30), rank ^ 2, incoming.part(10, 30), rank ^ 2}};
      channel.exchange(all, Where::current());
    });
    message.wait();
  };
  const Trace shared = run_on(c, 4, body).trace, alone = run_on(c, 4, body, {.share = false}).trace;
  CHECK(received(alone, 1, 10) == 11);
  CHECK(received(alone, 1, 20) == 31);
  check_seconds(received(shared, 3, 6), 13);   // at half the rate
  check_seconds(received(shared, 1, 10), 17);  // at half of it for 12 seconds, then alone
  check_seconds(received(shared, 2, 20), 37);  // behind that one
  check_seconds(received(shared, 1, 20), 37);  // comes in when the first has left the port, at 16
}

TEST_CASE("compute hides less: a wait that took no time takes some") {
  const auto body = [](C& world) {
    C again = world.split(0, world.rank());
    world.barrier();
    Tensor x = bytes(20), y = bytes(20);
    Work a = all_reduce(world, x), b = all_reduce(again, y);
    compute(25);  // hides 20 seconds of communication, not 40
    a.wait();
    b.wait();
    compute(1);
  };
  check_seconds(run(2, body).seconds() - run(2, body, false).seconds(), 40 - 25);
}

TEST_CASE("if no lanes meet, the trace is the clock's, bit for bit") {
  const auto body = [](C& world) {
    C pair = world.split(world.rank() / 2, 0);
    for (int step = 0; step < 3; ++step) {
      compute(0.3 * world.rank() * step);
      Tensor x = bytes(24), y = bytes(7), z = bytes(9);
      Work a = all_reduce(world, x);
      compute(5);
      a.wait();
      world.barrier();
      all_reduce(pair, y).wait();
      world.barrier();
      world.all_to_all(x, bytes(24));
      world.gather(x, bytes(24 / world.size()), step % 2);
      world.barrier();
      world.send_recv(z, world.rank() ^ 1, y = bytes(9), world.rank() ^ 1);
      world.barrier();
    }
  };
  for (const Cluster& c : {machine(), cluster_named("h100x16")})
    for (const int p : {2, 4, 8}) {
      const Timed shared = run(p, body, true, c), alone = run(p, body, false, c);
      REQUIRE_UNARY_FALSE(lanes_meet(alone.trace, c, {}));
      CHECK(shared.trace == alone.trace);
      CHECK(shared.ends == alone.ends);
    }
}

TEST_CASE("the times do not depend on when threads run, nor on whether a trace is kept") {
  const Timed first = run(4, busy_program);
  CHECK_UNARY(lanes_meet(run(4, busy_program, false).trace, machine(), {}));
  for (int i = 0; i < 10; ++i) {
    const auto late = [i](C& world) {
      std::this_thread::sleep_for(std::chrono::milliseconds((world.rank() * 7 + i * 3) % 5));
      busy_program(world);
    };
    const Timed again = run(4, late);
    CHECK_UNARY(again.trace == first.trace);
    CHECK(again.ends == first.ends);
  }
  CHECK(run_on(machine(), 4, busy_program, {.trace = false}).ends == first.ends);
}

TEST_CASE("no port carries more than its bandwidth, and causes lead back to the beginning") {
  const Timed timed = run(4, busy_program);
  const Cluster c = machine();
  Ports ports(c, {});
  std::map<int, double> works, last;
  for (int rank = 0; rank < 4; ++rank)
    for (const TraceEvent& event : timed.trace.ranks[static_cast<size_t>(rank)]) {
      CHECK(event.end >= event.begin);
      if (event.cause.rank >= 0 && event.kind != EventKind::wait)
        CHECK(timed.trace.at(event.cause).begin <= event.begin);
      if (event.kind != EventKind::send && event.kind != EventKind::recv) continue;
      const int port = ports.of(rank, event);
      works[port] += static_cast<double>(event.bytes);
      last[port] = std::max(last[port], event.end);
    }
  for (const auto& [port, work] : works) CHECK(work <= last[port] + 1e-9);
  double sum = 0;
  for (const EventId id : critical_path(timed.trace)) sum += timed.trace.at(id).seconds();
  check_seconds(sum, timed.seconds());
}

TEST_CASE("one live rank takes as long as four, with two lanes on its ports") {
  const auto work = [](C& one, C& other) {
    context().clock->wait(compute_lane, {0, 100});  // all begin together
    Tensor x = bytes(400), y = bytes(800);
    Work a = all_reduce(one, x), b = all_reduce(other, y);
    a.wait();
    compute(3);
    b.wait();
  };
  const Timed alive = run(4, [&](C& world) {
    C one = world.split(0, world.rank()), other = world.split(0, world.rank());
    work(one, other);
  });
  const Timed mirrored = run(1, [&](C& world) {
    C one = world.mirrored({0, 1, 2, 3}), other = world.mirrored({0, 1, 2, 3});
    work(one, other);
  });
  check_seconds(alive.seconds(), 100 + 600 + 1200);
  CHECK(mirrored.seconds() == alive.seconds());
}

TEST_CASE("a torus: rings on two axes have their own ports, two on one axis share them") {
  const Cluster c = torus(chip_named("v5p"), {4, 4});
  const auto both = [&](int stride) {
    return run_on(c, 16,
                  [&](C& world) {
                    const int rank = world.rank();
                    C row = world.split(rank / 4, rank), column = world.split(rank % 4, rank);
                    C again = world.split(rank / 4, rank);
                    world.barrier();
                    Tensor x = bytes(1 << 24);
                    Work a = all_reduce(row, x), b = all_reduce(stride == 1 ? again : column, x);
                    a.wait();
                    b.wait();
                  })
        .seconds();
  };
  const double one = all_reduce_ring_seconds(4, 1 << 24, {0, 1 / chip_named("v5p").link, 0});
  CHECK(both(4) == doctest::Approx(one).epsilon(0.2));
  CHECK(both(1) == doctest::Approx(2 * one).epsilon(0.2));
}

TEST_CASE("left out: what a program reads from its clock while it runs is the time alone") {
  double seen = 0;
  const Timed timed = run(2, [&](C& world) {
    C again = world.split(0, world.rank());
    Tensor x = bytes(20), y = bytes(20);
    Work a = all_reduce(world, x), b = all_reduce(again, y);
    a.wait();
    b.wait();
    if (world.rank() == 0) seen = context().clock->now(compute_lane).end;
  });
  CHECK(seen < timed.seconds());
  check_seconds(timed.seconds() - seen, 20);
}

TEST_CASE("left out: an uplink that is thinner than its cards is the clock's share, for each") {
  Cluster c = machine();
  c.levels[1].beta = 4;  // the node's uplink carries one byte per second for four cards
  const auto body = [](C& world) {
    Tensor x = bytes(10);
    if (world.rank() < 2) world.send(x, world.rank() + 4);
    if (world.rank() >= 4 && world.rank() < 6) world.recv(x, world.rank() - 4);
  };
  check_seconds(run_on(c, 8, body).seconds(), 40.5);  // two of four could have 20.5
}
