#include "yotta/comm/recorder.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

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
