#include "yotta/comm/waiting/wait_reports.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a report and a verdict arrive as they were sent") {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = 41;
  report.strands.resize(2);
  report.strands[0].wait.strand = 1;
  report.strands[1].wait.doing = "recv of 4 f32 with tag 7";
  report.strands[1].wait.called_at = "a.cpp:12";
  report.strands[1].wait.hint = "hint";
  report.strands[1].wait.kind = StrandWait::Kind::collective;
  report.strands[1].requests = {{Request::Kind::recv, 99, 3, -8}};
  report.strands[1].collective = 7;
  report.pending = {{Request::Kind::send, 0, 1, 2}, {Request::Kind::recv, 99, 3, -8}};
  report.natives = {{99, 5}};
  report.members = {{99, {1, 3}}};
  const WaitReport same = unpack_report(pack(report), 8);
  CHECK(same.state == RankWait::State::waits);
  CHECK(same.epoch == 41);
  REQUIRE(same.strands.size() == 2);
  CHECK(same.strands[0].wait.strand == 1);
  CHECK(same.strands[1].wait.doing == "recv of 4 f32 with tag 7");
  CHECK(same.strands[1].wait.called_at == "a.cpp:12");
  CHECK(same.strands[1].wait.hint == "hint");
  CHECK(same.strands[1].wait.kind == StrandWait::Kind::collective);
  CHECK(same.strands[1].requests[0].group == 99);
  CHECK(same.strands[1].requests[0].tag == -8);
  CHECK(same.strands[1].collective == 7);
  REQUIRE(same.pending.size() == 2);
  CHECK(same.pending[0].peer == 1);
  CHECK(same.natives == report.natives);
  CHECK(same.members == report.members);

  const CommVerdict verdict =
      unpack_verdict(pack(CommVerdict{CommVerdict::Kind::mismatch, {2, 0}, "why"}), 3);
  CHECK(verdict.kind == CommVerdict::Kind::mismatch);
  CHECK(verdict.culprits == std::vector<int>{2, 0});
  CHECK(verdict.text == "why");
}

namespace {

WaitReport whole_report() {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.strands.resize(1);
  report.strands[0].requests = {{Request::Kind::recv, 0, 1, 7}};
  return report;
}
template <class Change>
std::string refusal_of(Change change) {
  WaitReport report = whole_report();
  change(report);
  return message_of([&] { unpack_report(pack(report), 3); });
}

}  // namespace

TEST_CASE("a report that does not fit together is refused: ranks, strands, groups, enums") {
  CHECK(refusal_of([](WaitReport&) {}) == "nothing was thrown");
  CHECK(contains(refusal_of([](WaitReport& report) { report.strands[0].requests[0].peer = 3; }),
                 "a request to rank 3 of 3"));
  CHECK(contains(refusal_of([](WaitReport& report) { report.strands[0].wait.strand = 1; }),
                 "1 strands that do not fit together"));
  CHECK(contains(refusal_of([](WaitReport& report) { report.strands.clear(); }),
                 "0 strands that do not fit together"));
  CHECK(contains(refusal_of([](WaitReport& report) {
                   report.strands[0].requests[0].kind = Request::Kind::native;
                 }),
                 "do not fit together"));
  CHECK(contains(refusal_of([](WaitReport& report) {
                   report.members = {{0, {0, 3}}};
                 }),
                 "rank 3 of 3"));
  CHECK(contains(
      refusal_of([](WaitReport& report) { report.state = static_cast<RankWait::State>(9); }),
      "9 for an enum"));
  MessageWriter huge;
  huge.put(RankWait::State::waits);
  huge.put(int64_t{0});
  huge.put(uint64_t{1} << 40);  // strands
  CHECK(contains(message_of([&] { unpack_report(huge.bytes(), 3); }),
                 "has room for 0 things, not 1099511627776"));
}

TEST_CASE("a verdict about no rank, or about one that does not exist, is refused") {
  const auto refusal = [](const CommVerdict& verdict) {
    return message_of([&] { unpack_verdict(pack(verdict), 3); });
  };
  CHECK(refusal({CommVerdict::Kind::death, {2}, "why"}) == "nothing was thrown");
  CHECK(contains(refusal({CommVerdict::Kind::death, {}, "why"}), "a verdict that names no rank"));
  CHECK(contains(refusal({CommVerdict::Kind::death, {3}, "why"}), "rank 3 of 3"));
  CHECK(contains(refusal({static_cast<CommVerdict::Kind>(7), {1}, "why"}), "7 for an enum"));
}
