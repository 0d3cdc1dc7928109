#include "yotta/machine/timelines/wall_clock.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace yotta;

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
  const std::vector<TraceEvent>& events = clock.events();
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
  const std::vector<TraceEvent>& events = one.events();
  REQUIRE(events.size() == 3);
  CHECK(events[1].kind == EventKind::recv);
  CHECK(events[1].cause == EventId{0, 0});
  CHECK(events[2].kind == EventKind::wait);
  CHECK(events[2].begin == events[0].end);
  CHECK(events[2].end > events[2].begin);
  CHECK(events[2].cause == EventId{1, 1});
}
