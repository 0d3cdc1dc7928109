#include "yotta/parallel/interleaved_zero_bubble.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/message_of.hpp"
#include "support/pipeline_run.hpp"
#include "support/project_file.hpp"
#include "yotta/parallel/pipeline_picture.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("complete, and none waits forever: p <= 6, m <= 13, v <= 3; with v = 1 it is ZB-H1") {
  for (int p = 1; p <= 6; ++p)
    for (int64_t m = 1; m <= 13; ++m) {
      for (int v = 1; v <= 3; ++v)
        CHECK(simulate(interleaved_zb_schedule(p, m, v)).length >= static_cast<double>(3 * m * v));
      if (m % p == 0)
        CHECK(interleaved_zb_schedule(p, m, 1).by_rank ==
              zero_bubble_schedule(ZeroBubble::H1, p, m).by_rank);
    }
}

TEST_CASE(
    "idle (p-1)(F + I - W) of a chunk, holding v p chunks: less than interleaved 1F1B holds") {
  for (const PipelineCosts& costs :
       {PipelineCosts{}, PipelineCosts{4, 4, 3}, PipelineCosts{1, 1, 0.5}, PipelineCosts{2, 3, 2}})
    for (int p = 1; p <= 6; ++p)
      for (int v = 1; v <= 3; ++v)
        for (const int64_t m : {2 * p, 4 * p}) {
          CAPTURE(p);
          CAPTURE(v);
          const PipelineSchedule schedule = interleaved_zb_schedule(p, m, v);
          const double rate = bubble_rate(schedule, costs);
          const double work =
              static_cast<double>(m * v) * (costs.forward + costs.input + costs.weight);
          CHECK(work * rate / (1 - rate) == doctest::Approx(zero_bubble_idle(1, p, costs)));
          for (const PipelineActions& each : schedule.by_rank) CHECK(most_in_flight(each) == p * v);
          CHECK(in_flight_interleaved(0, p, m, v) >= p * v);
        }
}

TEST_CASE("run on ranks with a virtual clock: the timeline's time, interleaved 1F1B's gradients") {
  for (const PipelineCosts& costs : {PipelineCosts{}, PipelineCosts{4, 5, 3}}) {
    const PipelineSchedule schedule = interleaved_zb_schedule(3, 7, 2);
    const PipelineRun run = run_pipeline(schedule, costs);
    const PipelineRun other =
        run_pipeline(make_schedule(PipelineKind::interleaved, 3, 7, 2), costs);
    CHECK(run.seconds == doctest::Approx(simulate(schedule, costs).length));
    CHECK(run.seconds < other.seconds);
    CHECK(run.gradients == other.gradients);
  }
  const std::string header = text_of("include/yotta/parallel/interleaved_zero_bubble.hpp");
  std::istringstream lines(picture(simulate(interleaved_zb_schedule(2, 2, 2))));
  for (std::string line; std::getline(lines, line);) CHECK(contains(header, line + "\n"));
  CHECK(contains(message_of([] { interleaved_zb_schedule(2, 4, 0); }), "0 chunks per rank"));
}
