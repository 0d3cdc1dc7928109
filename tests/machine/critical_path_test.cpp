#include "yotta/machine/critical_path.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_on.hpp"

using namespace yotta;

namespace {

void compute(double seconds, const char* name = "work") {
  charge({name, DType::f32, seconds, 0, 0});
}

std::string describe(const Trace& trace, const std::vector<EventId>& path) {
  std::string text;
  for (const EventId id : path) {
    const TraceEvent& event = trace.at(id);
    text += fmt::format("{} {} {} {}; ", id.rank, name(event.kind), event.name, event.seconds());
  }
  return text;
}

// Everything at once: two communicators, point to point, ranks of different speed.
void busy_program(Communicator& world) {
  Communicator pair = world.split(world.rank() / 2, 0);
  std::vector<float> x(24), y(6), mine(1), one(1);
  const int next = (world.rank() + 1) % world.size(), last = (world.rank() + 3) % world.size();
  for (int step = 0; step < 3; ++step) {
    compute(1 + 0.3 * world.rank() * step);
    Work all = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
    Work two = pair.all_reduce_async(y, ReduceOp::sum, {Algorithm::recursive_doubling});
    Work out = world.send_async(mine, next);
    compute(2.5);
    world.recv(one, last);
    out.wait();
    step % 2 == 0 ? all.wait() : two.wait();
    compute(0.1, "small");
    step % 2 == 0 ? two.wait() : all.wait();
  }
  world.barrier();
}
Cluster slow_network() {
  Cluster c = ideal(4, 1, 16);
  c.levels[0].alpha = 0.125;
  c.levels.insert(c.levels.begin(), Level{"node", 2, 0.0625, 1 / 64.0});
  c.gamma = 1 / 32.0;
  return c;
}

}  // namespace

TEST_CASE("the path leads from the last rank over the message to the rank that was late") {
  const Timed run = run_on(ideal(2, 1, 4), 2, [](Communicator& world) {
    std::vector<float> x(2);
    compute(1, "first");
    if (world.rank() == 1) {
      compute(3, "late");
      world.send(x, 0);
    } else {
      world.recv(x, 1);
      compute(2, "last");
    }
  });
  CHECK(describe(run.trace, critical_path(run.trace)) ==
        "1 op first 1; 1 op late 3; 1 send send 2; 0 op last 2; ");
  const std::vector<WaitedFor> waited = waited_for(run.trace, 0);
  REQUIRE(waited.size() == 2);
  CHECK((waited[0].rank == 1 && waited[0].name == "late" && waited[0].seconds == 3));
  CHECK((waited[1].rank == 1 && waited[1].kind == EventKind::send && waited[1].seconds == 2));
  CHECK(waited_for(run.trace, 1).empty());
}

TEST_CASE("a straggler is named by every rank that waits in a ring for it") {
  const Timed run = run_on(ideal(4, 1, 16), 4, [](Communicator& world) {
    compute(world.rank() == 2 ? 5 : 1);
    std::vector<float> x(4);
    world.all_reduce(x, ReduceOp::sum, {Algorithm::ring});
  });
  for (const int rank : {0, 1, 3}) {
    const std::vector<WaitedFor> waited = waited_for(run.trace, rank);
    CHECK((waited[0].rank == 2 && waited[0].kind == EventKind::op));
    CHECK(waited[0].seconds == 4);
    double sum = 0;
    for (const WaitedFor& each : waited) sum += each.seconds;
    CHECK(sum == doctest::Approx(run.seconds(rank) - 1).epsilon(1e-12));
  }
}

TEST_CASE("the path has no gap, and every wait is explained to its last second") {
  const Trace trace = run_on(slow_network(), 4, busy_program).trace;
  double at = 0;
  for (const EventId id : critical_path(trace)) {
    CHECK(trace.at(id).begin == at);
    at = trace.at(id).end;
  }
  CHECK(at == seconds(trace));
  for (int rank = 0; rank < 4; ++rank) {
    double waited = 0, explained = 0;
    for (const TraceEvent& event : trace.ranks[static_cast<size_t>(rank)])
      if (event.kind == EventKind::wait && event.lane == compute_lane) waited += event.seconds();
    for (const WaitedFor& each : waited_for(trace, rank)) explained += each.seconds;
    CHECK(explained == doctest::Approx(waited).epsilon(1e-12));
    CHECK(busy_seconds(trace, rank) + waited ==
          doctest::Approx(seconds(trace, rank)).epsilon(1e-12));
  }
}

TEST_CASE("100 runs, one timeline") {
  const Trace first = run_on(slow_network(), 4, busy_program).trace;
  CHECK(first.ranks[0].size() > 50);
  int different = 0;
  for (int run = 1; run < 100; ++run)
    different += run_on(slow_network(), 4, busy_program).trace == first ? 0 : 1;
  CHECK(different == 0);
}

TEST_CASE("nothing happened: no path") {
  CHECK(critical_path(Trace{}).empty());
  CHECK(critical_path(Trace{{{}, {}}}).empty());
}
