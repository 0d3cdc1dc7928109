#include "yotta/comm/waiting/world_state.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE(
    "a group's id depends on its parent, its number there and its color, and on nothing else") {
  const uint64_t world = 0;
  CHECK(group_id(world, 3, 1) == group_id(world, 3, 1));
  const std::vector<uint64_t> ids = {world,
                                     group_id(world, 0, 0),
                                     group_id(world, 1, 0),
                                     group_id(world, 0, 1),
                                     group_id(world, 0, -1),
                                     group_id(group_id(world, 0, 0), 0, 0),
                                     group_id(group_id(world, 1, 0), 0, 1)};
  for (size_t i = 0; i < ids.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK(ids[i] != ids[j]);
}

TEST_CASE("the report of a rank that waits: what is done is no longer waited for") {
  WorldState<WorldGroup> state;
  state.rank = 3;
  state.groups = {{{0, 1, 2, 3}, 0, -1}, {{1, 3}, 99, 5}};
  CHECK(state.groups[1].rank_of(3) == 1);
  const Call call{"send_recv", 4, DType::f32, -1, "", "", Where::current()};
  Request send, recv;
  for (Request* request : {&send, &recv}) {
    request->group = 1;
    request->peer = 1;
    request->tag = 7;
    request->call = &call;
  }
  recv.kind = Request::Kind::recv;
  send.done = true;
  state.in_flight = {&recv};
  const Waiting strands[] = {{&call, Where::current(), {&send, &recv}, -1}};
  const WaitReport report =
      report_waits(state, strands, 41, [](const Request&) { return std::string("tag 8"); });
  CHECK(report.state == RankWait::State::waits);
  CHECK(report.epoch == 41);
  CHECK(report.natives.at(99) == 5);
  REQUIRE(report.pending.size() == 1);
  CHECK(report.pending[0].group == 99);
  REQUIRE(report.strands.size() == 1);
  const WaitReport::Strand& strand = report.strands[0];
  REQUIRE(strand.requests.size() == 1);
  CHECK(strand.requests[0].kind == Request::Kind::recv);
  CHECK(strand.requests[0].peer == 1);
  CHECK(strand.collective == -1);
  CHECK(strand.words.hint == "tag 8");
  CHECK(strand.words.doing == "send_recv of 4 f32 with tag 7 on the communicator of ranks 1 3");
}

TEST_CASE("a native collective that waits is reported with its number and its group's members") {
  WorldState<WorldGroup> state;
  state.groups = {{{0, 1}, 0, 2}};
  const Call call{"barrier", -1, DType::u8, -1, "", "native", Where::current()};
  Request native;
  native.kind = Request::Kind::native;
  native.tag = -3;
  native.call = &call;
  state.in_flight = {&native};
  const Waiting strands[] = {{&call, Where::current(), {&native, nullptr}, -1}};
  const WaitReport report =
      report_waits(state, strands, 0, [](const Request&) { return std::string("no hint"); });
  CHECK(report.pending.empty());
  CHECK(report.members.at(0) == std::vector<int>{0, 1});
  CHECK(report.strands[0].collective == 2);
  CHECK(report.strands[0].words.hint.empty());
}
