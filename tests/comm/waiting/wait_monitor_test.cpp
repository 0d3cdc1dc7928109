#include "yotta/comm/waiting/wait_monitor.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using yotta_test::contains;

namespace {

using Kind = Request::Kind;

// A rank that has posted these requests and waits for the first.
WaitReport waits(std::vector<PendingRequest> requests, int64_t epoch = 1) {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = epoch;
  WaitReport::Strand& strand = report.strands.emplace_back();
  strand.words.doing = "recv of 4 f32";
  strand.words.called_at = strand.words.waited_at = "a.cpp:1";
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
  report.strands[0].words.doing = operation;
  report.strands[0].words.kind = StrandWait::Kind::collective;
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

TEST_CASE("who has moved since his report breaks the circle, and an old answer does not close it") {
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

TEST_CASE("a native collective waits for those who have not started it") {
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
