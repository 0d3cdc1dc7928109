#include "yotta/parallel/pipeline_kinds.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/pipeline_run.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
using enum PipelineKind;
constexpr PipelineKind kinds[] = {naive, gpipe,          one_f_one_b, interleaved, zb_h1,    zb_h2,
                                  zb_v,  interleaved_zb, dual_pipe,   dual_pipe_v, automatic};
}  // namespace

TEST_CASE("every kind, on every size that it takes, runs to its end with 1F1B's gradients") {
  int ran = 0;
  for (const PipelineKind kind : kinds)
    for (const int p : {1, 2, 3, 4})
      for (const int64_t m : {1, 5, 8})
        for (const int chunks : {1, 2}) {
          const PipelinePlan plan{kind, chunks};
          if (!why_not(plan, p, m).empty()) continue;
          CAPTURE(std::string(name(kind)));
          CAPTURE(p);
          CAPTURE(m);
          const PipelineSchedule schedule = make_schedule(plan, p, m);
          CHECK(schedule.stages == plan.stages(p));
          CHECK(schedule.chunks() == plan.chunks_of_rank());
          CHECK(schedule.placement == plan.placement());
          for (int rank = 0; rank < p; ++rank)
            for (int c = 0; c < schedule.chunks(); ++c) {
              const int stage = stage_on(schedule.placement, rank, c, p);
              const int64_t i = plan.placement() == Placement::both_ways ? c * (m / 2) : 0;
              CHECK(schedule.rank_of(stage, i) == rank);
              CHECK(schedule.chunk_of(stage, i) == c);
            }
          const PipelineRun run = run_pipeline(schedule, {});
          CHECK(run.seconds == doctest::Approx(simulate(schedule).length));
          const PipelineRun other =
              run_pipeline(make_schedule(one_f_one_b, schedule.stages, m), {});
          for (size_t stage = 0; stage < other.gradients.size(); ++stage)
            CHECK(run.gradients[stage] == doctest::Approx(other.gradients[stage]).epsilon(1e-12));
          ++ran;
        }
  CHECK(ran > 100);
}

TEST_CASE("what a kind does not take is said, before it is made and when it is") {
  const auto said = [](const PipelinePlan& plan, int p, int64_t m) {
    const std::string why = why_not(plan, p, m);
    CHECK(contains(message_of([&] { make_schedule(plan, p, m); }), why));
    return why;
  };
  CHECK(said({dual_pipe}, 3, 8) == "DualPipe pairs rank r with rank p - 1 - r: p is even, not 3");
  CHECK(contains(said({dual_pipe}, 4, 7), "an even number of microbatches, at least 8, not 7"));
  CHECK(contains(said({dual_pipe_v}, 4, 7), "at least 8 microbatches, not 7"));
  CHECK(contains(said({dual_pipe_v}, 1, 1), "DualPipeV on 1 rank takes at least 2"));
  CHECK(said({zb_v, 3}, 2, 8) == "ZB-V has two chunks per rank, not 3");
  CHECK(said({zb_h1, 2}, 2, 8) == "ZB-H1 has one stage per rank, not 2");
  CHECK(said({one_f_one_b, 1, 4}, 2, 8) ==
        "1F1B holds what it needs; a limit is for the automatic schedule");
  CHECK(contains(said({one_f_one_b, 0}, 2, 8), "0 chunks per rank: each is at least 1"));
  CHECK(said({automatic, 1, -1}, 2, 8) ==
        "a limit of -1 microbatches held: at least 1, or 0 for p");
  CHECK(why_not({zb_v, 2}, 2, 8).empty());
  CHECK(contains(message_of([] { make_schedule(zb_v, 2, 8); }), "pipeline_kinds.hpp makes it"));
}

TEST_CASE("automatic: within the limit, of p if none is given; exact where it can be") {
  for (const int64_t hold : {0, 2, 5}) {
    const PipelineSchedule made = make_schedule({automatic, 1, hold, {1, 1, 0.5}}, 4, 6);
    for (const PipelineActions& each : made.by_rank)
      CHECK(most_in_flight(each) <= (hold > 0 ? hold : 4));
    CHECK(made.name == fmt::format("best, {} held", hold > 0 ? hold : 4));
  }
  CHECK(contains(make_schedule({automatic, 1, 6}, 4, 8).name, "greedy, 6 held"));
}
