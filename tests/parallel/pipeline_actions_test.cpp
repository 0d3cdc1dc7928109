#include "yotta/parallel/pipeline_actions.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("an action is printed as stage, letter, microbatch; a list with blanks between") {
  using Op = PipelineOp;
  CHECK(str(PipelineAction{1, Op::B, 0}) == "1B0");
  CHECK(str(PipelineActions{{0, Op::F, 12}, {10, Op::I, 3}, {10, Op::W, 3}}) == "0F12 10I3 10W3");
  CHECK(str(PipelineActions{}) == "");
}

TEST_CASE("stage s is on rank s mod p") {
  const PipelineSchedule schedule{"two chunks a rank", 4, 8, 1, {}};
  CHECK(schedule.rank_of(0) == 0);
  CHECK(schedule.rank_of(3) == 3);
  CHECK(schedule.rank_of(4) == 0);
  CHECK(schedule.rank_of(7) == 3);
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
