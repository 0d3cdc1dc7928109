#include "yotta/comm/recording/recorder.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "support/message_of.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
void ring(int ranks, int times) {
  run_ranks(ranks, [&](Communicator& world) {
    std::vector<float> x(8, 1);
    for (int i = 0; i < times; ++i) {
      charge({"matmul", DType::f32, 100, 0, 0});
      world.all_reduce(x);
    }
  });
}
}  // namespace

TEST_CASE("runs that know nothing of it are timed on the described machine; the largest is kept") {
  const Recorder recorder(ideal(4));
  ring(2, 1);
  ring(4, 3);
  ring(3, 1);
  CHECK(recorder.runs() == 3);
  REQUIRE(recorder.trace().ranks.size() == 4);
  CHECK(seconds(recorder.trace()) == 300);
  CHECK(busy_share(recorder.trace(), 3) == 1);
}

TEST_CASE("runs that a rank's code starts are its own: they are not recorded") {
  const Recorder recorder(ideal(4));
  run_ranks(2, [](Communicator& world) {
    charge({"op", DType::f32, 100, 0, 0});
    ring(3, 2);
    run_on(ideal(2), 2, [](Communicator&) { charge({"op", DType::f32, 7, 0, 0}); });
    world.barrier();
    charge({"op", DType::f32, 100, 0, 0});
  });
  CHECK(recorder.runs() == 1);
  REQUIRE(recorder.trace().ranks.size() == 2);
  CHECK(seconds(recorder.trace()) == 200);
}

TEST_CASE("a run with a machine of its own keeps it, and its name") {
  const Recorder recorder(cluster_named("h100x8"));
  const Timed run = run_on(ideal(4, 10), 4, [](Communicator&) {
    charge({"op", DType::f32, 20, 0, 0});
  });
  CHECK(run.seconds() == 2);
  CHECK(recorder.runs() == 1);
  CHECK(recorder.trace() == run.trace);
  CHECK(recorder.machine() == "ideal");
  ring(2, 20);
  CHECK(recorder.machine() == "h100x8");
}

TEST_CASE("without a machine it is the wall clock: every op and message, in order") {
  const Recorder recorder;
  ring(2, 3);
  CHECK(recorder.machine().empty());
  REQUIRE(recorder.trace().ranks.size() == 2);
  for (const std::vector<TraceEvent>& events : recorder.trace().ranks) {
    int ops = 0, sends = 0, receives = 0;
    double computed = 0;
    for (const TraceEvent& event : events) {
      CHECK(event.end >= event.begin);
      ops += event.kind == EventKind::op;
      sends += event.kind == EventKind::send;
      receives += event.kind == EventKind::recv;
      if (event.lane != compute_lane) continue;
      CHECK(event.begin >= computed);  // a rank does one thing at a time
      computed = event.end;
    }
    CHECK(ops == 3);
    CHECK(sends == receives);
    CHECK(sends > 0);
  }
}

TEST_CASE("both clocks keep the names of communicators") {
  const auto halves = [](Communicator& world) {
    std::vector<float> x(8, 1);
    world.split(world.rank() / 2, 0).named("half").all_reduce(x);
  };
  for (const std::optional<Cluster>& cluster : {std::optional<Cluster>{}, {ideal(4)}}) {
    const Recorder recorder(cluster);
    run_ranks(4, halves);
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(lane_name(recorder.trace(), rank, -1) == "world");  // split's own messages
      CHECK(lane_name(recorder.trace(), rank, -2) == "half");
    }
  }
}

TEST_CASE("done() has an answer under the wall clock, none on a described machine") {
  const auto polled = [](Communicator& world) {
    std::vector<float> x(8, 1);
    Work work = world.all_reduce_async(x);
    while (!work.done()) std::this_thread::yield();
    if (x[7] != 2) fail(Where::current(), "done, but the sum is {}", x[7]);
  };
  {
    const Recorder recorder;
    run_ranks(2, polled);
    CHECK(recorder.runs() == 1);
    int received = 0;
    for (const TraceEvent& event : recorder.trace().ranks[1])
      received += event.kind == EventKind::recv;
    CHECK(received > 0);
  }
  const Recorder recorder(ideal(2));
  CHECK(contains(message_of([&] { run_ranks(2, polled); }), "no answer under a virtual clock"));
}

TEST_CASE("a machine that is too small says so, and once it has gone nothing is timed") {
  {
    const Recorder recorder(ideal(2));
    CHECK(contains(message_of([] { ring(3, 1); }), "ideal has 2 chips, too few for a rank 2"));
    ring(2, 1);
    CHECK(recorder.runs() == 1);
  }
  const std::vector<RankReport> reports =
      run_ranks(1, [](Communicator&) { CHECK(context().clock == nullptr); });
  CHECK(reports[0].context->clock == nullptr);
}

// ---- The wall clock ----
namespace {
// Until the clock has moved on.
void pass() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
}  // namespace

TEST_CASE("an op lasts until the next op or message begins") {
  WallClock clock(0, std::chrono::steady_clock::now());
  clock.op({"a", DType::f32, 1, 2, 3});
  pass();
  clock.op({"b", DType::f32, 1, 2, 3});
  pass();
  clock.send({1, 64, message_lane(1, false), "x"});
  const std::vector<TraceEvent> events = clock.take_events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].name == "a");
  CHECK(events[0].bytes == 5);
  CHECK(events[0].end > events[0].begin);
  CHECK(events[0].end <= events[1].begin);
  CHECK(events[1].end > events[1].begin);
  CHECK(events[1].end <= events[2].begin + 1e-12);
  CHECK(events[1].cause == EventId{0, 0});
}

TEST_CASE("a wait lasts from the end of the last op, and is caused by what it waited for") {
  const WallClock::Time start = std::chrono::steady_clock::now();
  WallClock zero(0, start), one(1, start);
  one.op({"op", DType::f32, 1, 0, 0});
  const EventStamp travel = zero.send({1, 64, message_lane(1, false), "x"});
  const int lane = message_lane(0, true);
  one.now(compute_lane);  // it asks for the message here
  pass();
  one.receive({0, 64, lane, "x"}, travel);
  one.wait(compute_lane, one.now(lane));
  const std::vector<TraceEvent> events = one.take_events();
  REQUIRE(events.size() == 3);
  CHECK(events[1].kind == EventKind::recv);
  CHECK(events[1].cause == EventId{0, 0});
  CHECK(events[2].kind == EventKind::wait);
  CHECK(events[2].begin == events[0].end);
  CHECK(events[2].end > events[2].begin);
  CHECK(events[2].cause == EventId{1, 1});
}
