#include "yotta/machine/trace.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("lanes have names") {
  CHECK(lane_name(0) == "compute");
  CHECK(lane_name(-1) == "world");
  CHECK(lane_name(-3) == "communicator 3");
  CHECK(lane_name(message_lane(7, false)) == "to rank 7");
  CHECK(lane_name(message_lane(7, true)) == "from rank 7");
}

TEST_CASE("a kept text outlives its origin, and is one for all") {
  std::string text = "a label of more than fifteen characters";
  const std::string_view first = kept(text);
  CHECK(kept(std::string(text)).data() == first.data());
  text = "something else";
  CHECK(first == "a label of more than fifteen characters");
}

TEST_CASE("busy is what ops take; idle is the rest until the last rank has ended") {
  Trace trace;
  trace.ranks = {{{EventKind::op, 0, 0, 2, "a", {}}, {EventKind::wait, 0, 2, 3, "wait", {}}},
                 {{EventKind::op, 0, 0, 4, "b", {}}, {EventKind::send, -1, 4, 9, "c", {}}}};
  CHECK(seconds(trace, 0) == 3);
  CHECK(seconds(trace) == 4);
  CHECK(busy_share(trace, 0) == 0.5);
  CHECK(idle_share(trace, 1) == 0);
  CHECK(busy_share(Trace{{{}}}, 0) == 1);
}
