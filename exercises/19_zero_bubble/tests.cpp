// The graded cases of exercise 19. A schedule is a list, so time and memory are found out without any rank.
#include "course/shared/graded.hpp"
#include "interface.hpp"
#include "yotta/parallel/pipeline_picture.hpp"

using namespace yotta;
using exercise::expect;
using exercise::Held;
using exercise::solution;

namespace {

PipelineSchedule yours(int p, int64_t m, int k) {
  PipelineSchedule made{fmt::format("your ZB-H{}", k), p, p, m, {}};
  for (int rank = 0; rank < p; ++rank) made.by_rank.push_back(solution.actions(rank, p, m, k));
  return made;
}

// The timeline; fails with what is wrong with the schedule, and rank 0's actions.
PipelineTimeline timeline_of(const PipelineSchedule& schedule, const PipelineCosts& costs = {}) {
  try {
    return simulate(schedule, costs);
  } catch (const Error& error) {
    const std::string text = error.what();
    FAIL(fmt::format("{}\n    {}, p = {}, m = {}, rank 0: {}", text.substr(text.find(": ") + 2),
                     schedule.name, schedule.ranks, schedule.microbatches,
                     str(schedule.by_rank[0])));
    throw;
  }
}

double first_to_last(const PipelineTimeline& timeline, size_t rank) {
  const std::vector<PipelineEvent>& events = timeline.by_rank[rank];
  return events.back().end - events.front().begin;
}
double longest_of(const PipelineTimeline& timeline) {
  double longest = 0;
  for (size_t rank = 0; rank < timeline.by_rank.size(); ++rank)
    longest = std::max(longest, first_to_last(timeline, rank));
  return longest;
}

// What a rank holds when it holds most; a microbatch before I weighs 1, one before W half.
Held most_held(const PipelineActions& actions) {
  Held now{0, 0}, most{0, 0};
  for (const PipelineAction& each : actions) {
    if (each.op == PipelineOp::F) ++now.before_input;
    if (each.op == PipelineOp::I) --now.before_input, ++now.before_weight;
    if (each.op == PipelineOp::W) --now.before_weight;
    if (2 * now.before_input + now.before_weight > 2 * most.before_input + most.before_weight)
      most = now;
  }
  return most;
}

template <class Visit>
void each_size(Visit visit) {
  for (const int k : {1, 2})
    for (const int p : {4, 1, 2, 3, 8}) visit(p, int64_t{3} * p, k);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * (1 + std::abs(b)); }

}  // namespace

TEST_CASE("19.1: F, I and W of every microbatch once on every stage, and nobody waits forever") {
  each_size([](int p, int64_t m, int k) { timeline_of(yours(p, m, k)); });
  for (const int k : {1, 2})
    for (const auto& [p, m] : {std::pair{8, 5}, {4, 1}, {3, 2}}) timeline_of(yours(p, m, k));
  CHECK(true);
}

TEST_CASE("19.1: H1 leaves a third of 1F1B's bubble, H2 nothing") {
  each_size([](int p, int64_t m, int k) {
    const PipelineTimeline timeline = timeline_of(yours(p, m, k));
    const double idle = longest_of(timeline) - 3 * static_cast<double>(m);
    const int right = k == 1 ? p - 1 : 0;
    std::string why = "put W off, and I comes back sooner";
    if (near(idle, 2 * (p - 1)))
      why =
          "right, but each W follows its I at once: a rank is busy with W when the next I could be "
          "on its way up, and waits for one later";
    else if (k == 2 && near(idle, p - 1))
      why = "that is H1: p - 1 more forwards fit in before the first I";
    expect(near(idle, right),
           fmt::format("ZB-H{}, p = {}, m = {}: a rank is idle for {} units, {} allowed: {}\n{}", k,
                       p, m, idle, right, why, picture(timeline)));
  });
}

TEST_CASE("19.1: H1 holds what 1F1B does, H2 less than twice of it") {
  each_size([](int p, int64_t m, int k) {
    const PipelineSchedule schedule = yours(p, m, k);
    timeline_of(schedule);
    for (int rank = 0; rank < p; ++rank) {
      const Held most = most_held(schedule.by_rank[static_cast<size_t>(rank)]);
      const int64_t in_flight = most_in_flight(schedule.by_rank[static_cast<size_t>(rank)]);
      const int64_t allowed = k * (p - 1) + 1;
      expect(in_flight <= allowed && most.before_input <= k * (p - 1 - rank) + 1,
             fmt::format(
                 "ZB-H{}: rank {} of {} holds {} microbatches until their W, {} allowed: a W "
                 "may wait k (p - 1) turns after its F, no longer\n    {}",
                 k, rank, p, in_flight, allowed, str(schedule.by_rank[static_cast<size_t>(rank)])));
    }
  });
}

TEST_CASE("19.2: the longest time from a rank's first action to its last one's end") {
  const PipelineTimeline two = {{}, {{{{}, 3, 4}, {{}, 6, 9}}, {{{}, 0, 1}, {{}, 1, 5}}, {}}, 9};
  const double found = solution.longest_rank(two);
  expect(near(found, 6),
         fmt::format("ranks at work from 3 to 9, from 0 to 5, and not at all: you say {}, the "
                     "longest is 6{}",
                     found,
                     near(found, 9) ? ": 9 is when the last one ends; a rank that begins "
                                      "later has not been idle before"
                                    : ""));
  expect(solution.longest_rank({}) == 0, "without ranks it is 0");
}

TEST_CASE("19.3: the share of a rank's time in which it does not work, as the paper prints it") {
  const PipelineCosts measured{18.522, 18.086, 9.337, 0.601};
  const PipelineSchedule schedule = make_schedule(PipelineKind::one_f_one_b, 8, 24);
  const double rate = solution.bubble_rate(schedule, measured), printed = 0.2431;
  std::string why;
  if (std::abs(rate / (1 + rate) - printed) < 5.1e-5)
    why = ": that is idle time over work; the rate is of the whole time, idle included";
  expect(std::abs(rate - printed) < 5.1e-5,
         fmt::format(
             "1F1B, p = 8, m = 24, F 18.522, I 18.086, W 9.337, a message 0.601: you say {:.4f}, "
             "the paper prints {:.4f}{}",
             rate, printed, why));
  const PipelineSchedule alone = make_schedule(PipelineKind::one_f_one_b, 1, 3);
  expect(near(solution.bubble_rate(alone, {}), 0), "one rank has no bubble");
}

TEST_CASE("19.4: microbatches held at most: before I, and between I and W") {
  each_size([](int p, int64_t, int k) {
    for (int rank = 0; rank < p; ++rank) {
      const Held right{k * int64_t{p - 1 - rank} + 1, k * int64_t{rank}};
      const Held found = solution.held(rank, p, k);
      std::string why;
      if (found.before_input == right.before_input && found.before_weight == 0)
        why = ": after I a microbatch still holds x and dy, until its W";
      expect(found == right,
             fmt::format("ZB-H{}: rank {} of {}: you say {} before I and {} before W, it is {} and "
                         "{}{}",
                         k, rank, p, found.before_input, found.before_weight, right.before_input,
                         right.before_weight, why));
    }
  });
}
