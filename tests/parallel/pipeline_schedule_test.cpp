#include "yotta/parallel/pipeline_schedule.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/parallel/pipeline_timeline.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Calls visit(schedule, p, m, v) for every kind, p <= 8, m <= 16, v <= 4.
template <class Visit>
void each_schedule(Visit visit) {
  for (int p = 1; p <= 8; ++p)
    for (int64_t m = 1; m <= 16; ++m) {
      for (const PipelineKind kind :
           {PipelineKind::naive, PipelineKind::gpipe, PipelineKind::one_f_one_b})
        visit(make_schedule(kind, p, m), p, m, 1);
      for (int v = 1; v <= 4; ++v)
        visit(make_schedule(PipelineKind::interleaved, p, m, v), p, m, v);
    }
}

}  // namespace

TEST_CASE("an action is printed as stage, letter, microbatch; a list with blanks between") {
  using Op = PipelineOp;
  CHECK(str(PipelineAction{1, Op::B, 0}) == "1B0");
  CHECK(str(PipelineActions{{0, Op::F, 12}, {10, Op::I, 3}, {10, Op::W, 3}}) == "0F12 10I3 10W3");
  CHECK(str(PipelineActions{}) == "");
  CHECK(str(PipelineActions{{0, Op::F, 3, true}, {1, Op::B, 0}}) == "0F3& 1B0");
}

TEST_CASE("stage s is on rank s mod p") {
  const PipelineSchedule schedule{"two chunks per rank", 4, 8, 1, {}};
  CHECK(schedule.rank_of(0) == 0);
  CHECK(schedule.rank_of(3) == 3);
  CHECK(schedule.rank_of(4) == 0);
  CHECK(schedule.rank_of(7) == 3);
}

TEST_CASE("a V has both ends on rank 0; both ways, the microbatch says which of two ranks it is") {
  const PipelineSchedule vee{"V", 4, 8, 6, {}, Placement::vee};
  const PipelineSchedule both{"both", 4, 4, 6, {}, Placement::both_ways};
  const int in_vee[] = {0, 1, 2, 3, 3, 2, 1, 0};
  for (int stage = 0; stage < 8; ++stage) {
    CHECK(vee.rank_of(stage) == in_vee[stage]);
    CHECK(vee.chunk_of(stage) == stage / 4);
    CHECK(stage_on(Placement::vee, in_vee[stage], stage / 4, 4) == stage);
  }
  for (int stage = 0; stage < 4; ++stage)
    for (int64_t i = 0; i < 6; ++i) {
      const int copy = i < 3 ? 0 : 1, rank = i < 3 ? stage : 3 - stage;
      CHECK(both.rank_of(stage, i) == rank);
      CHECK(both.chunk_of(stage, i) == copy);
      CHECK(stage_on(Placement::both_ways, rank, copy, 4) == stage);
    }
  CHECK(vee.chunks() == 2);
  CHECK(both.chunks() == 2);
}

TEST_CASE("B and I of a stage and microbatch take the same message, F another, W none") {
  using Op = PipelineOp;
  CHECK(same_message({1, Op::B, 2}, {1, Op::I, 2}));
  CHECK(same_message({1, Op::F, 2, true}, {1, Op::F, 2}));
  CHECK(!same_message({1, Op::F, 2}, {1, Op::B, 2}));
  CHECK(!same_message({1, Op::W, 2}, {1, Op::I, 2}));
  CHECK(!same_message({1, Op::I, 2}, {2, Op::I, 2}));
  CHECK(!same_message({1, Op::I, 2}, {1, Op::I, 3}));
}

TEST_CASE("the bubble's two shares are of one idle time: x of the work is x/(1+x) of the whole") {
  for (const int p : {1, 2, 4, 16})
    for (const int64_t m : {1, 4, 32})
      for (const int v : {1, 2, 8}) {
        const double share = bubble_of_work(p, m, v);
        CHECK(bubble_of_total(p, m, v) == doctest::Approx(share / (1 + share)).epsilon(1e-15));
      }
  CHECK(bubble_of_total(4, 4) == doctest::Approx(3.0 / 7).epsilon(1e-15));
}

TEST_CASE("in flight: 1F1B p - rank, never more than m; interleaving counts chunks") {
  CHECK(in_flight_1f1b(0, 4, 8) == 4);
  CHECK(in_flight_1f1b(3, 4, 8) == 1);
  CHECK(in_flight_1f1b(0, 8, 3) == 3);
  CHECK(in_flight_interleaved(0, 4, 8, 2) == 11);
  CHECK(in_flight_interleaved(0, 4, 8, 1) == 4);
  CHECK(in_flight_interleaved(0, 4, 4, 2) == 8);  // all there are
}

TEST_CASE("each rank's actions, as printed") {
  const auto actions = [](PipelineKind kind, int rank, int p, int64_t m, int v = 1) {
    return str(make_schedule(kind, p, m, v).by_rank[static_cast<size_t>(rank)]);
  };
  CHECK(actions(PipelineKind::naive, 1, 2, 2) == "1F0 1B0 1F1 1B1");
  CHECK(actions(PipelineKind::gpipe, 1, 3, 3) == "1F0 1F1 1F2 1B0 1B1 1B2");
  CHECK(actions(PipelineKind::one_f_one_b, 0, 3, 4) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3");
  CHECK(actions(PipelineKind::one_f_one_b, 2, 3, 2) == "2F0 2B0 2F1 2B1");
  CHECK(actions(PipelineKind::one_f_one_b, 0, 8, 2) == "0F0 0F1 0B0 0B1");  // m < p
  CHECK(actions(PipelineKind::interleaved, 1, 2, 2, 2) == "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
  CHECK(actions(PipelineKind::interleaved, 0, 2, 1, 2) == "0F0 2F0 2B0 0B0");
}

TEST_CASE("every schedule is complete and none waits forever: p <= 8, m <= 16, v <= 4") {
  int count = 0;
  each_schedule([&](const PipelineSchedule& schedule, int p, int64_t m, int v) {
    CAPTURE(schedule.name);
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(v);
    CHECK(simulate(schedule).length > 0);
    ++count;
  });
  CHECK(count == 8 * 16 * 7);
}

TEST_CASE(
    "in flight: naive 1, GPipe m, 1F1B min(p - s, m), interleaved 2(p-1-r) + (v-1)p + 1 chunks") {
  each_schedule([&](const PipelineSchedule& schedule, int p, int64_t m, int v) {
    for (int rank = 0; rank < p; ++rank) {
      CAPTURE(schedule.name);
      CAPTURE(p);
      CAPTURE(m);
      CAPTURE(rank);
      const int64_t most = most_in_flight(schedule.by_rank[static_cast<size_t>(rank)]);
      if (schedule.name == "naive") CHECK(most == 1);
      if (schedule.name == "GPipe") CHECK(most == m);
      if (schedule.name == "1F1B") CHECK(most == std::min<int64_t>(p - rank, m));
      if (v > 1 && m % p == 0) CHECK(most == in_flight_interleaved(rank, p, m, v));
      if (v > 1) CHECK(most <= in_flight_interleaved(rank, p, m + p, v));
    }
  });
}

TEST_CASE("impossible sizes are refused") {
  CHECK(contains(message_of([] { make_schedule(PipelineKind::gpipe, 2, 0); }), "0 microbatches"));
  CHECK(contains(message_of([] { make_schedule(PipelineKind::gpipe, 2, 2, 2); }),
                 "GPipe has one chunk per rank"));
}
