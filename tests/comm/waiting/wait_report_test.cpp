#include "yotta/comm/waiting/wait_report.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a report and a verdict arrive as they were sent") {
  WaitReport report;
  report.state = RankWait::State::waits;
  report.epoch = 41;
  report.strands.resize(2);
  report.strands[0].words.strand = 1;
  report.strands[1].words.doing = "recv of 4 f32 with tag 7";
  report.strands[1].words.called_at = "a.cpp:12";
  report.strands[1].words.hint = "hint";
  report.strands[1].words.kind = StrandWait::Kind::collective;
  report.strands[1].requests = {{Request::Kind::recv, 99, 3, -8}};
  report.strands[1].collective = 7;
  report.pending = {{Request::Kind::send, 0, 1, 2}, {Request::Kind::recv, 99, 3, -8}};
  report.natives = {{99, 5}};
  report.members = {{99, {1, 3}}};
  const WaitReport same = unpack_report(pack(report));
  CHECK(same.state == RankWait::State::waits);
  CHECK(same.epoch == 41);
  REQUIRE(same.strands.size() == 2);
  CHECK(same.strands[0].words.strand == 1);
  CHECK(same.strands[1].words.doing == "recv of 4 f32 with tag 7");
  CHECK(same.strands[1].words.called_at == "a.cpp:12");
  CHECK(same.strands[1].words.hint == "hint");
  CHECK(same.strands[1].words.kind == StrandWait::Kind::collective);
  CHECK(same.strands[1].requests[0].group == 99);
  CHECK(same.strands[1].requests[0].tag == -8);
  CHECK(same.strands[1].collective == 7);
  REQUIRE(same.pending.size() == 2);
  CHECK(same.pending[0].peer == 1);
  CHECK(same.natives == report.natives);
  CHECK(same.members == report.members);

  const CommVerdict verdict =
      unpack_verdict(pack(CommVerdict{CommVerdict::Kind::mismatch, {2, 0}, "why"}));
  CHECK(verdict.kind == CommVerdict::Kind::mismatch);
  CHECK(verdict.culprits == std::vector<int>{2, 0});
  CHECK(verdict.text == "why");
}

TEST_CASE("what a strand does, in words") {
  const Where where = Where::current();
  const Call call{"recv", 4, DType::f32, -1, "", "", where};
  Request request;
  request.kind = Request::Kind::recv;
  request.tag = 7;
  Waiting waiting{&call, where, {nullptr, &request}, -1};
  StrandWait words;
  add_words(waiting, {}, words);
  CHECK(words.doing == "recv of 4 f32 with tag 7");
  CHECK(words.kind == StrandWait::Kind::recv);
  const Call all{"barrier", -1, DType::u8, -1, "", "native", where};
  waiting.call = &all;
  request.kind = Request::Kind::native;
  request.tag = -1;
  request.group = 2;
  add_words(waiting, std::vector<int>{1, 3}, words);
  CHECK(words.doing == "barrier, native on the communicator of ranks 1 3");
  CHECK(words.kind == StrandWait::Kind::collective);
}
