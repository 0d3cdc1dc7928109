// The graded cases of exercise 18. A schedule is a list, so everything is found out without any rank: is it
// complete, can it run at all, how long does it take, how much must each stage hold?
#include "course/shared/graded.hpp"
#include "interface.hpp"
#include "yotta/parallel/pipeline_picture.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;

namespace {

using Actions = PipelineActions (*)(int rank, int p, int64_t m);

PipelineSchedule schedule_of(Actions actions, int p, int64_t m) {
  PipelineSchedule made{"yours", p, p, m, {}};
  for (int rank = 0; rank < p; ++rank) made.by_rank.push_back(actions(rank, p, m));
  return made;
}

// "p = 4, m = 8, your rank 1: 1F0 1F1 ..."
std::string rank_of(const PipelineSchedule& schedule, int rank) {
  return fmt::format("\n    p = {}, m = {}, your rank {}: {}", schedule.ranks,
                     schedule.microbatches, rank, str(schedule.by_rank[static_cast<size_t>(rank)]));
}

// Runs check(); fails with its complaint, without the place in the library, and rank 0's actions.
template <class Check>
auto complaining(const PipelineSchedule& schedule, Check check) {
  try {
    return check();
  } catch (const Error& error) {
    const std::string text = error.what();
    FAIL((text.substr(text.find(": ") + 2) + rank_of(schedule, 0)));
    throw;
  }
}

void expect_complete(const PipelineSchedule& schedule) {
  complaining(schedule, [&] { check_complete(schedule); });
  CHECK(true);
}
PipelineTimeline timeline_of(const PipelineSchedule& schedule) {
  return complaining(schedule, [&] { return simulate(schedule); });
}

void expect_busy(const PipelineSchedule& schedule, double busy) {
  const PipelineTimeline timeline = timeline_of(schedule);
  expect(
      timeline.busy() > busy - 1e-12,
      fmt::format("p = {}, m = {}: busy {:.1f}% of the time, expected {:.1f}%\n{}", schedule.ranks,
                  schedule.microbatches, 100 * timeline.busy(), 100 * busy, picture(timeline)));
}

// Counts along the list, I and W included.
int64_t live(const PipelineActions& actions) { return yotta::most_in_flight(actions); }

template <class Visit>
void each_size(Visit visit) {
  for (const int p : {4, 1, 2, 3, 8})
    for (const int64_t m : {8, 1, 3, 5, 16}) visit(p, m);
}

}  // namespace

TEST_CASE("18.1: every microbatch goes forward, and then every one backward, on every stage") {
  each_size([](int p, int64_t m) {
    const PipelineSchedule schedule = schedule_of(solution.gpipe, p, m);
    expect_complete(schedule);
    for (int rank = 0; rank < p; ++rank) {
      const PipelineActions& actions = schedule.by_rank[static_cast<size_t>(rank)];
      for (int64_t i = 0; i < 2 * m; ++i) {
        const bool forward = actions[static_cast<size_t>(i)].op == PipelineOp::F;
        expect(forward == (i < m), "GPipe runs all F before the first B" + rank_of(schedule, rank));
      }
    }
    expect_busy(schedule, 1 - bubble_of_total(p, m));
  });
}

TEST_CASE("18.2: every microbatch goes forward and backward once on every stage") {
  each_size([](int p, int64_t m) {
    if (m >= p) expect_complete(schedule_of(solution.one_f_one_b, p, m));
  });
}

TEST_CASE("18.2: nobody waits forever") {
  each_size([](int p, int64_t m) {
    if (m >= p) timeline_of(schedule_of(solution.one_f_one_b, p, m));
  });
  CHECK(true);
}

TEST_CASE("18.2: no stage holds more than it must") {
  each_size([](int p, int64_t m) {
    if (m < p) return;
    const PipelineSchedule schedule = schedule_of(solution.one_f_one_b, p, m);
    const bool same_bubble = timeline_of(schedule).busy() > 1 - bubble_of_total(p, m) - 1e-12;
    for (int rank = 0; rank < p; ++rank) {
      const PipelineActions& actions = schedule.by_rank[static_cast<size_t>(rank)];
      const int64_t held = live(actions), allowed = std::min<int64_t>(p - rank, m);
      if (held == allowed) continue;
      std::string wrong =
          fmt::format("stage {} holds {} microbatches at once, {} allowed", rank, held, allowed);
      if (rank == 0 && held == p + 1)
        wrong =
            "stage 0 holds p+1 microbatches at once, and p are enough: the first B is back after p "
            "- 1 more "
            "stages, so the warm-up is one F too long";
      if (held == m && m > p - rank + 1)
        wrong = fmt::format(
            "right, and the {}bubble, {} live, {} allowed: all F before the first B is GPipe. Run "
            "each "
            "microbatch backward as soon as it can be",
            same_bubble ? "same " : "", held, allowed);
      FAIL((wrong + rank_of(schedule, rank)));
    }
  });
  CHECK(true);
}

TEST_CASE("18.2: the bubble is GPipe's, (p-1)/(m+p-1)") {
  each_size([](int p, int64_t m) {
    if (m >= p) expect_busy(schedule_of(solution.one_f_one_b, p, m), 1 - bubble_of_total(p, m));
  });
}

TEST_CASE("18.2: with fewer microbatches than ranks, only those that exist") {
  for (const auto& [p, m] : {std::pair{8, 5}, {8, 1}, {3, 2}, {4, 3}}) {
    const PipelineSchedule schedule = schedule_of(solution.one_f_one_b, p, m);
    expect_complete(schedule);
    expect_busy(schedule, 1 - bubble_of_total(p, m));
  }
}

TEST_CASE("18.3: the most microbatches that have gone forward and not yet backward") {
  each_size([](int p, int64_t m) {
    for (int rank = 0; rank < p; ++rank)
      for (const PipelineActions& actions :
           {gpipe_actions(rank, p, m), one_f_one_b_actions(rank, p, m)}) {
        const int64_t counted = solution.most_in_flight(actions);
        expect(counted == live(actions), fmt::format("you count {}, there are {}\n    {}", counted,
                                                     live(actions), str(actions)));
      }
  });
  expect(solution.most_in_flight({}) == 0, "an empty list holds nothing");
}

TEST_CASE("18.3: with dgrad and wgrad apart, a Saved lives until wgrad") {
  using Op = PipelineOp;
  const PipelineActions actions = {{0, Op::F, 0}, {0, Op::I, 0}, {0, Op::F, 1},
                                   {0, Op::I, 1}, {0, Op::W, 0}, {0, Op::W, 1}};
  const int64_t counted = solution.most_in_flight(actions);
  expect(counted == 2, fmt::format("{}: you count {}, there are 2: after I (dgrad) wgrad still "
                                   "needs its Saved; only W, or the whole B, ends it",
                                   str(actions), counted));
}
