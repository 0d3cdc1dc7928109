#include "yotta/machine/trace.hpp"

#include <doctest/doctest.h>

#include "support/small_trace.hpp"

using namespace yotta;

TEST_CASE("lanes have names") {
  Trace trace;
  CHECK(lane_name(trace, 0, 0) == "compute");
  CHECK(lane_name(trace, 0, -1) == "world");
  CHECK(lane_name(trace, 0, -3) == "communicator 3");
  CHECK(lane_name(trace, 0, message_lane(7, false)) == "to rank 7");
  CHECK(lane_name(trace, 0, message_lane(7, true)) == "from rank 7");
  trace.lanes = {{},
                 {{-3, {"tp"}},
                  {message_lane(7, true), {"world"}},
                  {message_lane(7, false), {"world", "pp"}}}};
  CHECK(lane_name(trace, 0, -3) == "communicator 3");
  CHECK(lane_name(trace, 1, -3) == "tp");
  CHECK(lane_name(trace, 1, message_lane(7, true)) == "from rank 7");
  CHECK(lane_name(trace, 1, message_lane(7, false)) == "to rank 7 (pp, world)");
}

TEST_CASE("lanes of one name are told apart by what they carried, or else by a number") {
  Trace trace = yotta_test::step_trace();
  CHECK(lane_names(trace, 0) ==
        std::map<int, std::string>{{0, "compute"}, {-1, "dp: ddp.gradients"}, {-2, "dp: weights"}});
  for (TraceEvent& event : trace.ranks[0])
    if (event.lane < 0) event.name = "weights";
  CHECK(lane_names(trace, 0)[-1] == "dp: weights");
  CHECK(lane_names(trace, 0)[-2] == "dp: weights #2");
  trace.lanes[0][-2] = {"tp"};
  CHECK(lane_names(trace, 0)[-2] == "tp");
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

TEST_CASE("an excerpt: cut at both ends, counted from its begin, causes renumbered or gone") {
  const Trace part = excerpt(yotta_test::small_trace(), 3, 7);
  REQUIRE(part.ranks.size() == 2);
  REQUIRE(part.ranks[0].size() == 3);
  REQUIRE(part.ranks[1].size() == 3);  // rank 1's first matmul has ended before
  const TraceEvent &matmul = part.ranks[0][0], &wait = part.ranks[1][0], &last = part.ranks[1][2];
  CHECK((matmul.begin == 0 && matmul.end == 1 && matmul.name == "matmul"));
  CHECK((wait.kind == EventKind::wait && wait.begin == 0 && wait.end == 3));
  CHECK((last.begin == 3 && last.end == 4));
  CHECK(last.cause == EventId{1, 0});
  CHECK(part.at(part.ranks[1][1].cause).kind == EventKind::send);
  CHECK(excerpt(yotta_test::small_trace(), 5, 7).ranks[0][0].cause == EventId{});
  CHECK(excerpt(yotta_test::small_trace(), 0, 8) == yotta_test::small_trace());
  CHECK(excerpt(yotta_test::small_trace(), 8, 9).ranks[1].empty());
}
