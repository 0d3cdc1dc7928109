// The control planes of several ranks in one thread, with their messages in a queue.
#include "yotta/comm/waiting/control_plane.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <memory>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("an answer to no question is no proof that ranks stand still") {
  WaitMonitor monitor(3);
  CHECK_FALSE(monitor.answer(1, 0, 0).verdict.has_value());
  CHECK_FALSE(monitor.answer(2, 0, 0).verdict.has_value());
}

TEST_CASE("what a strand does, in words") {
  const Where where = Where::current();
  const Call call{"recv", 4, DType::f32, -1, "", "", where};
  Request request;
  request.kind = Request::Kind::recv;
  request.tag = 7;
  Waiting waiting{&call, where, {nullptr, &request}, -1};
  StrandWait wait;
  describe_wait(waiting, {}, wait);
  CHECK(wait.doing == "recv of 4 f32 with tag 7");
  CHECK(wait.kind == StrandWait::Kind::recv);
  const Call all{"barrier", -1, DType::u8, -1, "", "native", where};
  waiting.call = &all;
  request.kind = Request::Kind::native;
  request.tag = -1;
  request.group = 2;
  describe_wait(waiting, std::vector<int>{1, 3}, wait);
  CHECK(wait.doing == "barrier, native on the communicator of ranks 1 3");
  CHECK(wait.kind == StrandWait::Kind::collective);
}

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
  WorldState state;
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
  CHECK(strand.wait.hint == "tag 8");
  CHECK(strand.wait.doing == "send_recv of 4 f32 with tag 7 on the communicator of ranks 1 3");
}

TEST_CASE("a native collective that waits is reported with its number and its group's members") {
  WorldState state;
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
  CHECK(report.strands[0].wait.hint.empty());
}

namespace {

using Kind = Request::Kind;

// A rank that has posted these requests and waits for the first.
WaitReport waits(std::vector<PendingRequest> requests, int64_t epoch = 1) {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = epoch;
  WaitReport::Strand& strand = report.strands.emplace_back();
  strand.wait.doing = "recv of 4 f32";
  strand.wait.called_at = strand.wait.waited_at = "a.cpp:1";
  strand.requests = {requests[0]};
  report.pending = std::move(requests);
  return report;
}
PendingRequest recv_from(int peer, int64_t tag = 0) { return {Kind::recv, 0, peer, tag}; }
PendingRequest send_to(int peer, int64_t tag = 0) { return {Kind::send, 0, peer, tag}; }

// A rank in MPI's own collective `number` of group 5 (ranks 0, 1, 2), which it has started.
WaitReport in_native(int64_t number, const char* operation) {
  WaitReport report = waits({{Kind::native, 5, 0, -1 - number}});
  report.pending.clear();
  report.natives = {{5, number}};
  report.members = {{5, {0, 1, 2}}};
  report.strands[0].wait.doing = operation;
  report.strands[0].wait.kind = StrandWait::Kind::collective;
  report.strands[0].collective = number;
  return report;
}

}  // namespace

TEST_CASE("a circle is a deadlock when all have said that they still stand there") {
  WaitMonitor monitor(3);
  CHECK(monitor.report(0, waits({recv_from(1)})).ask.empty());
  const auto asked = monitor.report(1, waits({recv_from(0)}, 8));
  CHECK(asked.ask == std::vector<int>{0, 1});
  CHECK_FALSE(asked.verdict);
  CHECK_FALSE(monitor.answer(1, asked.round, 8).verdict);
  const auto end = monitor.answer(0, asked.round, 1);
  REQUIRE(end.verdict);
  CHECK(end.verdict->kind == CommVerdict::Kind::deadlock);
  CHECK(end.verdict->culprits == std::vector<int>{0, 1});
  CHECK(contains(end.verdict->text, "rank 0 waits for 1 waits for 0"));
  CHECK(contains(end.verdict->text, "recv of 4 f32 at a.cpp:1"));
}

TEST_CASE(
    "a rank that has moved since its report breaks the circle; an old answer does not close it") {
  WaitMonitor monitor(2);
  monitor.report(0, waits({recv_from(1)}));
  const auto first = monitor.report(1, waits({recv_from(0)}, 8));
  CHECK(monitor.answer(1, first.round, 9).ask.empty());  // it runs
  CHECK_FALSE(monitor.answer(0, first.round, 1).verdict);
  const auto second = monitor.report(1, waits({recv_from(0)}, 10));
  CHECK(second.ask == std::vector<int>{0, 1});
  CHECK_FALSE(monitor.answer(0, first.round, 1).verdict);  // an answer to the first question
  CHECK_FALSE(monitor.answer(0, second.round, 1).verdict);
  CHECK(monitor.answer(1, second.round, 10).verdict);
}

TEST_CASE("a message that both sides have posted is on its way") {
  WaitMonitor monitor(2);
  monitor.report(0, waits({recv_from(1, 7)}));
  // Rank 1 waits for rank 0, but what rank 0 waits for it has sent, without waiting for it.
  CHECK(monitor.report(1, waits({recv_from(0), send_to(0, 7)})).ask.empty());
  WaitMonitor other(2);
  other.report(0, waits({recv_from(1, 7)}));
  CHECK(other.report(1, waits({recv_from(0), send_to(0, 8)})).ask.size() == 2);  // another tag
}

TEST_CASE("waiting for a rank that has returned") {
  WaitMonitor monitor(2);
  WaitReport returned;
  returned.state = RankWait::State::returned;
  CHECK(monitor.report(1, returned).ask.empty());
  const auto asked = monitor.report(0, waits({recv_from(1)}));
  CHECK(asked.ask == std::vector<int>{0});
  const auto end = monitor.answer(0, asked.round, 1);
  REQUIRE(end.verdict);
  CHECK(contains(end.verdict->text, "waits for 1, which has returned"));
}

TEST_CASE("a native collective waits for the ranks that have not started it") {
  WaitMonitor monitor(3);
  monitor.report(0, in_native(4, "barrier"));
  monitor.report(1, in_native(4, "barrier"));
  WaitReport third = waits({recv_from(0)});
  third.natives = {{5, 3}};
  CHECK(monitor.report(2, third).ask == std::vector<int>{0, 1, 2});
  third.natives = {{5, 4}};  // it has started it, and goes on when MPI has done its work
  CHECK(monitor.report(2, third).ask.empty());
}

TEST_CASE("the same call of a communicator, but not the same collective") {
  WaitMonitor monitor(3);
  monitor.report(0, in_native(4, "barrier"));
  CHECK_FALSE(monitor.report(2, in_native(5, "broadcast of 4 f32, root 0")).verdict);  // the next
  const auto end = monitor.report(1, in_native(4, "broadcast of 4 f32, root 0"));
  REQUIRE(end.verdict);
  CHECK(end.verdict->kind == CommVerdict::Kind::mismatch);
  CHECK(end.verdict->culprits == std::vector<int>{1});
  CHECK(contains(end.verdict->text, "rank 0: barrier at a.cpp:1"));
  CHECK(contains(end.verdict->text, "rank 1: broadcast of 4 f32, root 0 at a.cpp:1"));
}

namespace {

class Ranks {
 public:
  explicit Ranks(int size) {
    for (int rank = 0; rank < size; ++rank)
      ranks_.push_back(std::make_unique<ControlPlane>(
          rank, size,
          [this, rank](int to, int kind, const std::string& text) {
            messages_.push_back({rank, to, kind, text});
          },
          [this] { ++notified; }));
  }
  ControlPlane& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  // Delivers every message, and those that follow from it; returns how many there were.
  int deliver() {
    int count = 0;
    for (; !messages_.empty(); ++count) {
      const Message message = messages_.front();
      messages_.pop_front();
      (*this)[message.to].read(message.from, message.kind, message.text);
    }
    return count;
  }
  std::string heard_by(int rank) {
    return message_of([&] { (*this)[rank].check(Where::current()); });
  }
  int notified = 0;

 private:
  struct Message {
    int from, to, kind;
    std::string text;
  };
  std::deque<Message> messages_;
  std::vector<std::unique_ptr<ControlPlane>> ranks_;
};

// Waits for a message from `peer` that was not sent.
WaitReport waits_for(int peer, int64_t epoch) {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = epoch;
  report.strands.emplace_back().requests = {{Request::Kind::recv, 0, peer, 0}};
  report.pending = report.strands[0].requests;
  return report;
}

Call call_of(const char* operation) {
  return {operation, -1, DType::u8, -1, "", "", Where::current()};
}

}  // namespace

TEST_CASE("a failure is heard by all; what follows are its consequences") {
  Ranks ranks(3);
  CHECK(ranks.heard_by(1) == "nothing was thrown");
  ranks[2].fail("the disk is full");
  ranks[2].fail("and more");
  CHECK(ranks.deliver() == 2);
  ranks[0].fail("I was told that rank 2 has failed");
  CHECK(ranks.deliver() == 0);
  CHECK(ranks.notified == 3);
  for (const int other : {0, 1})
    CHECK(contains(ranks.heard_by(other), "rank 2 has failed: the disk is full"));
  CHECK_THROWS_AS(ranks[0].check(Where::current()), PeerFailed);
  CHECK(contains(ranks.heard_by(2),
                 "this rank has failed before, its world is over: the disk is full"));
}

TEST_CASE("a process that has ended is named as it was described") {
  Ranks ranks(3);
  ranks[0].lost(1, "rank 1 has failed: its process, 4711 on node7, has ended");
  ranks.deliver();
  for (const int other : {0, 2}) {
    CHECK(contains(ranks.heard_by(other), "4711 on node7"));
    CHECK_THROWS_AS(ranks[other].check(Where::current()), PeerFailed);
  }
}

TEST_CASE("a circle is a deadlock only if no rank in it has moved since its report") {
  Ranks ranks(3);
  ranks[1].report(waits_for(2, ranks[1].epoch()));
  ranks[2].report(waits_for(1, ranks[2].epoch()));
  ranks[2].moved();  // a moment later, before it is asked
  ranks.deliver();
  CHECK_FALSE(ranks[0].failed());
  ranks[1].report(waits_for(2, ranks[1].epoch()));
  ranks[2].report(waits_for(1, ranks[2].epoch()));
  ranks.deliver();
  for (const int culprit : {1, 2})
    CHECK_THROWS_AS(ranks[culprit].check(Where::current()), Deadlock);
  CHECK_THROWS_AS(ranks[0].check(Where::current()), PeerFailed);
  CHECK(contains(ranks.heard_by(0), "rank 1 waits for 2 waits for 1"));
}

TEST_CASE("rank 0 itself can stand in the circle") {
  Ranks ranks(2);
  ranks[1].report(waits_for(0, 0));
  ranks.deliver();
  ranks[0].report(waits_for(1, 0));
  ranks.deliver();
  CHECK_THROWS_AS(ranks[0].check(Where::current()), Deadlock);
  CHECK_THROWS_AS(ranks[1].check(Where::current()), Deadlock);
}

TEST_CASE(
    "where control messages may overtake messages, a rank tests its requests twice before it is "
    "sure") {
  for (const bool has_arrived : {false, true}) {
    ControlPlane self(
        0, 1, [](int, int, const std::string&) { FAIL("nobody else is there"); }, [] {}, 2);
    self.report(waits_for(0, 0));
    CHECK_FALSE(self.failed());
    self.tested();  // had begun, perhaps, before the question came
    CHECK_FALSE(self.failed());
    if (has_arrived) self.moved();  // what that test found
    self.tested();
    CHECK(self.failed() != has_arrived);
  }
}

TEST_CASE("calls that are the same are told, once, to the ranks that ask") {
  Ranks ranks(3);
  for (const bool confirm : {false, true}) {
    const int64_t number = confirm ? 7 : 6;
    for (int rank = 0; rank < 3; ++rank)
      ranks[rank].compare(5, number, 3, 1, confirm, call_of("barrier"));
    ranks.deliver();
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(ranks[rank].is_confirmed(5, number) == confirm);
      CHECK_FALSE(ranks[rank].is_confirmed(5, number));
    }
  }
}

TEST_CASE("calls that differ are a mismatch with both places, at the home and elsewhere") {
  Ranks ranks(3);
  ranks[0].compare(0, 1, 3, 2, false, call_of("barrier"));
  ranks[1].compare(0, 1, 3, 2, false, call_of("split"));
  ranks.deliver();
  CHECK_THROWS_AS(ranks[1].check(Where::current()), Mismatch);
  CHECK_THROWS_AS(ranks[0].check(Where::current()), PeerFailed);
  CHECK(contains(ranks.heard_by(2), "rank 0: barrier at control_plane_test.cpp:"));
  CHECK(contains(ranks.heard_by(2), "rank 1: split at control_plane_test.cpp:"));
}

TEST_CASE("calls that differ, found when a rank's code has ended, are placed at its last call") {
  Ranks ranks(2);
  const Where call = Where::current();
  for (int rank = 0; rank < 2; ++rank) ranks[rank].check(call);
  ranks[0].compare(0, 1, 2, 0, false, call_of("barrier"));
  ranks[1].compare(0, 1, 2, 0, false, call_of("split"));
  ranks.deliver();
  CHECK(message_of([&] { ranks[1].check_at_end(Where::current()); }).starts_with(at(call) + ": "));
  CHECK_NOTHROW(ranks[1].check_at_end(Where::current()));  // once
}

TEST_CASE("a rank says once that it asks, once that it waits, and again after it has moved") {
  using State = RankWait::State;
  Ranks ranks(1);
  ControlPlane& self = ranks[0];
  CHECK(self.seconds_still() >= 0);
  CHECK_FALSE(self.should_report(3600, State::waits));
  for (const State state : {State::asks, State::waits}) {
    CHECK(self.should_report(-1, state));
    CHECK_FALSE(self.should_report(-1, state));
  }
  self.moved();
  CHECK(self.should_report(-1, State::waits));
}
