#include "yotta/parallel/pipeline_actions.hpp"

#include <doctest/doctest.h>

using namespace yotta;

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
