#include "yotta/parallel/dual_pipe.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/message_of.hpp"
#include "support/pipeline_run.hpp"
#include "support/project_file.hpp"
#include "yotta/parallel/pipeline_picture.hpp"
#include "yotta/parallel/zero_bubble.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Time of the whole step in which a rank does not work, as in the table of DualPipe.
double idle(const PipelineTimeline& timeline, int rank) {
  double work = 0;
  for (const PipelineEvent& each : timeline.by_rank[static_cast<size_t>(rank)])
    work += each.end - each.begin;
  return timeline.length - work;
}
double most_idle(const PipelineTimeline& timeline) {
  double most = 0;
  for (int rank = 0; rank < timeline.schedule.ranks; ++rank)
    most = std::max(most, idle(timeline, rank));
  return most;
}

// F&B shorter than F + B by a twelfth, a sixth; W shorter than I.
const PipelineCosts declared[] = {
    {}, {1, 1, 1, 0, 2.75}, {1, 1, 1, 0, 2.5}, {4, 4, 3, 0, 10}, {2, 2, 1, 0, 4.5}};

}  // namespace

TEST_CASE("complete, and none waits forever: p <= 10, m from 2p") {
  for (int p = 2; p <= 10; p += 2)
    for (int64_t m = 2 * p; m <= 5 * p; m += 2) {
      CHECK(simulate(dual_pipe_schedule(p, m)).length > 0);
      CHECK(simulate(dual_pipe_v_schedule(p / 2, m / 2)).length > 0);
    }
  for (int64_t m = 2; m <= 9; ++m)
    CHECK(simulate(dual_pipe_v_schedule(1, m)).length == static_cast<double>(6 * m));
}

TEST_CASE("idle: (p/2-1)(F&B + B - 3W) on the middle ranks, and nowhere more; DualPipeV the same") {
  for (const PipelineCosts& costs : declared)
    for (int p = 2; p <= 8; p += 2)
      for (const int64_t m : {2 * p, 6 * p}) {
        CAPTURE(p);
        CAPTURE(m);
        const double formula = dual_pipe_idle(p, costs);
        const PipelineTimeline both = simulate(dual_pipe_schedule(p, m), costs);
        const PipelineTimeline folded = simulate(dual_pipe_v_schedule(p / 2, m / 2), costs);
        CHECK(most_idle(both) == doctest::Approx(formula));
        CHECK(idle(both, p / 2) == doctest::Approx(formula));
        CHECK(idle(folded, p / 2 - 1) == doctest::Approx(formula));
        CHECK(folded.length == doctest::Approx(both.length));
        if (!costs.together)
          for (int rank = 0; rank < p; ++rank) CHECK(idle(both, rank) == doctest::Approx(formula));
      }
}

TEST_CASE("with I longer than F no rank is idle for more than that") {
  for (const PipelineCosts& costs : {PipelineCosts{1, 1.5, 0.5}, PipelineCosts{2, 3, 2, 0, 6}})
    for (int p = 2; p <= 8; p += 2)
      CHECK(most_idle(simulate(dual_pipe_schedule(p, 4 * p), costs)) <=
            dual_pipe_idle(p, costs) + 1e-9);
}

TEST_CASE("the table of 1F1B, ZB1P and DualPipe by simulation: F = I = W, and others") {
  for (const PipelineCosts& costs : {PipelineCosts{}, PipelineCosts{4, 4, 3, 0, 10}})
    for (const int p : {2, 4, 8}) {
      const int64_t m = 4 * p;
      const double B = costs.input + costs.weight;
      CHECK(most_idle(simulate(make_schedule(PipelineKind::one_f_one_b, p, m), costs)) ==
            doctest::Approx((p - 1) * (costs.forward + B)));
      CHECK(bubble_rate(zero_bubble_schedule(ZeroBubble::H1, p, m), costs) ==
            doctest::Approx((p - 1) * (costs.forward + B - 2 * costs.weight) /
                            ((p - 1) * (costs.forward + B - 2 * costs.weight) +
                             static_cast<double>(m) * (costs.forward + B))));
      CHECK(most_idle(simulate(dual_pipe_schedule(p, m), costs)) ==
            doctest::Approx((p / 2 - 1) * (costs.of_pair() + B - 3 * costs.weight)));
    }
}

TEST_CASE("no rank holds more than p + 1 microbatches, and each rank holds as many") {
  for (int p = 2; p <= 8; p += 2)
    for (const int64_t m : {2 * p, 4 * p}) {
      for (const PipelineActions& each : dual_pipe_schedule(p, m).by_rank)
        CHECK(most_in_flight(each) == held_by_dual_pipe(p));
      for (const PipelineActions& each : dual_pipe_v_schedule(p / 2, m / 2).by_rank)
        CHECK(most_in_flight(each) == held_by_dual_pipe(p));
    }
}

TEST_CASE("ranks r and p - 1 - r do the same; DualPipeV is one half of it") {
  const int p = 6;
  const int64_t m = 14;
  const PipelineSchedule both = dual_pipe_schedule(p, m), folded = dual_pipe_v_schedule(3, m / 2);
  for (int rank = 0; rank < p / 2; ++rank) {
    PipelineActions mirrored = both.by_rank[static_cast<size_t>(p - 1 - rank)];
    for (PipelineAction& each : mirrored) each.microbatch = (each.microbatch + m / 2) % m;
    CHECK(mirrored == both.by_rank[static_cast<size_t>(rank)]);
    PipelineActions half = both.by_rank[static_cast<size_t>(rank)];
    for (PipelineAction& each : half) each.microbatch %= m / 2;
    CHECK(half == folded.by_rank[static_cast<size_t>(rank)]);
  }
}

TEST_CASE("an F&B is an F and a B of opposite directions, and most F are in one") {
  const PipelineSchedule schedule = dual_pipe_schedule(4, 20);
  for (const PipelineActions& actions : schedule.by_rank) {
    int pairs = 0;
    for (size_t i = 0; i < actions.size(); ++i) {
      if (!actions[i].with_next) continue;
      ++pairs;
      CHECK(actions[i].op == PipelineOp::F);
      CHECK(actions[i + 1].op == PipelineOp::B);
      CHECK((actions[i].microbatch < 10) != (actions[i + 1].microbatch < 10));
    }
    CHECK(pairs >= 14);
  }
}

TEST_CASE(
    "run on ranks with a virtual clock: the timeline's time with F&B as declared, the gradients of "
    "1F1B, p + 1 held") {
  const int64_t m = 12;
  const PipelineRun whole = run_pipeline(make_schedule(PipelineKind::one_f_one_b, 4, m), {});
  for (const PipelineCosts& costs : declared) {
    const PipelineSchedule both = dual_pipe_schedule(4, m), folded = dual_pipe_v_schedule(2, m);
    for (const PipelineSchedule* schedule : {&both, &folded}) {
      const PipelineRun run = run_pipeline(*schedule, costs);
      CHECK(run.seconds == doctest::Approx(simulate(*schedule, costs).length));
      CHECK(run.most_saved == held_by_dual_pipe(4));
      CHECK(run.loss == doctest::Approx(whole.loss).epsilon(1e-12));
      for (size_t stage = 0; stage < 4; ++stage)
        CHECK(run.gradients[stage] == doctest::Approx(whole.gradients[stage]).epsilon(1e-12));
    }
  }
}

TEST_CASE("impossible sizes are refused with the rule; the picture at the top is this one") {
  CHECK(contains(message_of([] { dual_pipe_schedule(3, 6); }), "p is even, not 3"));
  CHECK(contains(message_of([] { dual_pipe_schedule(4, 6); }),
                 "DualPipe on 4 ranks takes an even number of microbatches, at least 8, not 6"));
  CHECK(contains(message_of([] { dual_pipe_schedule(2, 5); }), "even number of microbatches"));
  CHECK(contains(message_of([] { dual_pipe_v_schedule(2, 3); }),
                 "DualPipeV on 2 ranks takes at least 4 microbatches, not 3"));
  CHECK(contains(message_of([] { dual_pipe_v_schedule(0, 3); }), "at least 1"));
  CHECK(dual_pipe_idle(8, {}) == 6);
  std::istringstream lines(picture(simulate(dual_pipe_schedule(4, 8))));
  const std::string header = text_of("include/yotta/parallel/dual_pipe.hpp");
  for (std::string line; std::getline(lines, line);) CHECK(contains(header, line + "\n"));
}
