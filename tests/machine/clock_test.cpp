#include "yotta/machine/clock.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
// Two chips, 10 FLOP/s, 100 bytes/s of memory; a message takes 1 s + 0.5 s a byte.
Cluster small() {
  Chip chip = ideal_chip(10);
  chip.bandwidth = 100;
  return {"small", chip, {{"node", 2, 1, 0.5}}, {}};
}
}  // namespace

TEST_CASE("an op takes the larger of computing and moving, and the launch") {
  Cluster c = small();
  VirtualClock clock(c, 0);
  clock.op({"compute", DType::f32, 50, 10, 10});
  CHECK(clock.seconds() == 5);
  clock.op({"move", DType::f32, 1, 200, 100});
  CHECK(clock.seconds() == 8);
  c.chip.launch_overhead = 0.25;
  clock.op({"nothing", DType::f32, 0, 0, 0});
  CHECK(clock.seconds() == 8.25);
  CHECK(op_seconds(chip_named("h100"), {"matmul", DType::bf16, 989.4e12, 0, 0}) ==
        doctest::Approx(1 + 0.9e-6).epsilon(1e-12));
}

TEST_CASE("messages of one lane follow each other; the receiver goes on when they have arrived") {
  const Cluster c = small();
  VirtualClock zero(c, 0), one(c, 1);
  const int to = message_lane(1, false), from = message_lane(0, true);
  const EventStamp first = zero.send({1, 4, to, "x"});
  zero.wait(to, first);
  const EventStamp second = zero.send({1, 2, to, "x"});
  CHECK((first.begin == 0 && first.end == 3));
  CHECK((second.begin == 3 && second.end == 5));
  SUBCASE("in order") {
    one.receive({0, 4, from, "x"}, first);
    CHECK(one.now(from).end == 3);
    one.receive({0, 2, from, "x"}, second);
  }
  SUBCASE("waited for in the other order") {
    one.receive({0, 2, from, "x"}, second);
    one.receive({0, 4, from, "x"}, first);
  }
  CHECK(one.now(from).end == 5);
  CHECK(one.seconds() == 0);  // nobody has waited on the compute lane yet
  one.wait(compute_lane, one.now(from));
  CHECK(one.seconds() == 5);
}

TEST_CASE("in a collective receives queue: two messages that arrive at once take two times") {
  Cluster c = small();
  c.levels[0].chips = 3;
  VirtualClock zero(c, 0), one(c, 1), two(c, 2);
  const EventStamp a = one.send({0, 4, -1, "x"}), b = two.send({0, 4, -1, "x"});
  zero.receive({1, 4, -1, "x"}, a);
  zero.receive({2, 4, -1, "x"}, b);
  CHECK(zero.now(-1).end == 6);
}

TEST_CASE("an exchange goes both ways at once") {
  const Cluster c = small();
  VirtualClock zero(c, 0), one(c, 1);
  const EventStamp out = zero.send({1, 4, -1, "x"}), in = one.send({0, 8, -1, "x"});
  zero.receive({1, 8, -1, "x"}, in);
  zero.wait(-1, out);
  one.receive({0, 4, -1, "x"}, out);
  one.wait(-1, in);
  CHECK(zero.now(-1).end == 5);
  CHECK(one.now(-1).end == 5);
}

TEST_CASE("what is sent at once shares a port: one N beta after the other; two ports go together") {
  Cluster c = small();
  c.levels = {{"node", 2, 1, 0.5}, {"all", 4, 3, 2}};  // outside: 3 s + 2 s a byte
  VirtualClock zero(c, 0), one(c, 1);
  const EventStamp first = zero.send({1, 4, -1, "x"}), second = zero.send({1, 6, -1, "x"});
  const EventStamp out = zero.send({2, 2, -1, "x"}), out_too = zero.send({3, 2, -1, "x"});
  CHECK((first.begin == 0 && first.end == 3));
  CHECK((second.begin == 2 && second.end == 2 + 4));  // behind the four bytes, not their latency
  CHECK((out.begin == 0 && out.end == 7));            // by the card
  CHECK((out_too.begin == 4 && out_too.end == 11));
  const std::vector<Arrival> arrivals = {{{0, 6, -1, "x"}, second}, {{0, 4, -1, "x"}, first}};
  one.receive_all(arrivals);  // given in another order: those sent first are received first
  CHECK(one.now(-1).end == 6);
  for (const EventStamp& sent : {first, second, out, out_too}) zero.wait(-1, sent);
  CHECK(zero.now(-1).end == 11);
  CHECK(zero.send({1, 2, -1, "x"}).begin == 11);  // its lane has waited for all of them
}

TEST_CASE("what comes at once from several ranks shares the port that it comes in by") {
  Cluster c = small();
  c.levels = {{"node", 3, 1, 0.5}, {"all", 6, 3, 2}};
  VirtualClock zero(c, 0), one(c, 1), two(c, 2), other(c, 3);
  const EventStamp a = one.send({0, 4, -1, "x"}), b = two.send({0, 4, -1, "x"});
  const EventStamp far = other.send({0, 1, -1, "x"});
  zero.receive_all(std::vector<Arrival>{{{1, 4, -1, "x"}, a}, {{2, 4, -1, "x"}, b}});
  CHECK(zero.now(-1).end == 5);  // 1 + 2, and two more for the other's bytes
  VirtualClock again(c, 0);
  again.receive_all(
      std::vector<Arrival>{{{1, 4, -1, "x"}, a}, {{3, 1, -1, "x"}, far}, {{2, 4, -1, "x"}, b}});
  CHECK(again.now(-1).end == 5);  // that of the card, 3 + 2, came meanwhile
  VirtualClock single(c, 0);
  single.receive_all(std::vector<Arrival>{{{1, 4, -1, "x"}, a}});
  CHECK(single.now(-1).end == a.end);
  single.receive_all({});
  CHECK(single.now(-1).end == a.end);
}

TEST_CASE("causes lead from a wait over the message to the op that was late") {
  const Cluster c = small();
  VirtualClock zero(c, 0), one(c, 1);
  zero.op({"late", DType::f32, 40, 0, 0});
  const int to = message_lane(1, false), from = message_lane(0, true);
  zero.wait(to, zero.now(compute_lane));
  const EventStamp travel = zero.send({1, 4, to, "x"});
  one.receive({0, 4, from, "x"}, travel);
  one.wait(compute_lane, one.now(from));
  const Trace trace = collect_trace({{zero.take_events(), one.take_events()}});
  CHECK(seconds(trace) == 7);
  CHECK(seconds(trace, 0) == 4);
  CHECK(busy_share(trace, 0) == doctest::Approx(4.0 / 7));
  CHECK(idle_share(trace, 1) == 1);
  std::string chain;
  for (EventId id = {1, 0}; id.rank >= 0; id = trace.at(id).cause)
    chain += fmt::format("{} {} on {}; ", id.rank, name(trace.at(id).kind),
                         lane_name(trace, id.rank, trace.at(id).lane));
  CHECK(chain ==
        "1 wait on compute; 1 recv on from rank 0; 0 send on to rank 1; 0 op on "
        "compute; ");
}

TEST_CASE("without a trace the times are the same and nothing is kept") {
  const Cluster c = small();
  VirtualClock clock(c, 0, {.trace = false});
  clock.op({"compute", DType::f32, 50, 0, 0});
  const EventStamp travel = clock.send({1, 4, -1, "x"});
  clock.wait(-1, travel);
  CHECK(clock.seconds() == 5);
  CHECK(clock.now(-1).end == 3);
  CHECK(clock.take_events().empty());
}

TEST_CASE("ranks may sit on any chip; images are given by their chip") {
  Cluster c = small();
  c.levels = {{"node", 2, 1, 0.5}, {"all", 8, 2, 1}};
  VirtualClock clock(c, 1, {.chips = {7, 2}});
  CHECK(clock.send({0, 2, -1, "x"}).end == 4);                // to chip 7
  CHECK(clock.send({first_image + 3, 2, -1, "x"}).end == 2);  // on the same node
  CHECK(lane_name({}, 0, message_lane(first_image + 3, false)) == "to the image on chip 3");
}
