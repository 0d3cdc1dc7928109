// Lookouts of several ranks in one thread, with letters in a queue.
#include "yotta/comm/waiting/control_plane.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <memory>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

class Post {
 public:
  explicit Post(int size) {
    for (int rank = 0; rank < size; ++rank)
      ranks_.push_back(std::make_unique<ControlPlane>(
          rank, size,
          [this, rank](int to, int kind, const std::string& text) {
            letters_.push_back({rank, to, kind, text});
          },
          [this] { ++believers; }));
  }
  ControlPlane& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  // Delivers every letter, and those that follow from it; returns how many there were.
  int deliver() {
    int count = 0;
    for (; !letters_.empty(); ++count) {
      const Letter letter = letters_.front();
      letters_.pop_front();
      (*this)[letter.to].read(letter.from, letter.kind, letter.text);
    }
    return count;
  }
  std::string heard_by(int rank) {
    return message_of([&] { (*this)[rank].check(Where::current()); });
  }
  int believers = 0;

 private:
  struct Letter {
    int from, to, kind;
    std::string text;
  };
  std::deque<Letter> letters_;
  std::vector<std::unique_ptr<ControlPlane>> ranks_;
};

// Waits for a message from `peer`, and nobody has sent one.
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
  Post ranks(3);
  CHECK(ranks.heard_by(1) == "nothing was thrown");
  ranks[2].fail("the disk is full");
  ranks[2].fail("and more");
  CHECK(ranks.deliver() == 2);
  ranks[0].fail("I was told that rank 2 has failed");
  CHECK(ranks.deliver() == 0);
  CHECK(ranks.believers == 3);
  for (const int other : {0, 1})
    CHECK(contains(ranks.heard_by(other), "rank 2 has failed: the disk is full"));
  CHECK_THROWS_AS(ranks[0].check(Where::current()), PeerFailed);
  CHECK(contains(ranks.heard_by(2),
                 "this rank has failed before, its world is over: the disk is full"));
}

TEST_CASE("a process that has ended is named as it was described") {
  Post ranks(3);
  ranks[0].lost(1, "rank 1 has failed: its process, 4711 on node7, has ended");
  ranks.deliver();
  for (const int other : {0, 2}) {
    CHECK(contains(ranks.heard_by(other), "4711 on node7"));
    CHECK_THROWS_AS(ranks[other].check(Where::current()), PeerFailed);
  }
}

TEST_CASE("a circle is a deadlock only if everybody in it still stands where he stood") {
  Post ranks(3);
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
  Post ranks(2);
  ranks[1].report(waits_for(0, 0));
  ranks.deliver();
  ranks[0].report(waits_for(1, 0));
  ranks.deliver();
  CHECK_THROWS_AS(ranks[0].check(Where::current()), Deadlock);
  CHECK_THROWS_AS(ranks[1].check(Where::current()), Deadlock);
}

TEST_CASE(
    "where letters may overtake messages, a rank tests its requests twice before it is sure") {
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

TEST_CASE("calls that are the same are told, once, to those who ask") {
  Post ranks(3);
  for (const bool tell : {false, true}) {
    const int64_t number = tell ? 7 : 6;
    for (int rank = 0; rank < 3; ++rank)
      ranks[rank].compare(5, number, 3, 1, tell, call_of("barrier"));
    ranks.deliver();
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(ranks[rank].all_call(5, number) == tell);
      CHECK_FALSE(ranks[rank].all_call(5, number));
    }
  }
}

TEST_CASE("calls that differ are a mismatch with both places, at the home and elsewhere") {
  Post ranks(3);
  ranks[0].compare(0, 1, 3, 2, false, call_of("barrier"));
  ranks[1].compare(0, 1, 3, 2, false, call_of("split"));
  ranks.deliver();
  CHECK_THROWS_AS(ranks[1].check(Where::current()), Mismatch);
  CHECK_THROWS_AS(ranks[0].check(Where::current()), PeerFailed);
  CHECK(contains(ranks.heard_by(2), "rank 0: barrier at control_plane_test.cpp:"));
  CHECK(contains(ranks.heard_by(2), "rank 1: split at control_plane_test.cpp:"));
}

TEST_CASE("a rank says once that it stands still, and again after it has moved") {
  Post ranks(1);
  ControlPlane& self = ranks[0];
  CHECK(self.still() >= 0);
  CHECK_FALSE(self.should_report(3600));
  CHECK(self.should_report(-1));
  CHECK_FALSE(self.should_report(-1));
  self.moved();
  CHECK(self.should_report(-1));
}
