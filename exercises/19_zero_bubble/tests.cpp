// The graded cases of exercise 19. A schedule is a list, so time and memory are found out without
// any rank.
#include "course/cases/graded_pipeline.hpp"
#include "interface.hpp"
#include "yotta/parallel/zero_bubble.hpp"

using namespace yotta;
using exercise::beside;
using exercise::complaining;
using exercise::expect;
using exercise::Held;
using exercise::solution;

namespace {

PipelineSchedule yours(int p, int64_t m, int k) {
  PipelineSchedule made{fmt::format("your ZB-H{}", k), p, p, m, {}};
  for (int rank = 0; rank < p; ++rank) made.by_rank.push_back(solution.actions(rank, p, m, k));
  return made;
}

// What the library has in its place.
PipelineSchedule right(const PipelineSchedule& yours, int k) {
  return zero_bubble_schedule(static_cast<ZeroBubble>(k), yours.ranks, yours.microbatches);
}

// The timeline; fails with what is wrong with the schedule.
PipelineTimeline timeline_of(const PipelineSchedule& schedule, int k) {
  return complaining(schedule, right(schedule, k), [&] { return simulate(schedule); });
}

// Idle time of the rank that is idle longest, between its first action and its last.
double longest_idle(const PipelineTimeline& timeline) {
  double idle = 0;
  for (const std::vector<PipelineEvent>& events : timeline.by_rank)
    idle = std::max(idle, idle_inside(events));
  return idle;
}

// Does each W follow its I at once?
bool w_at_once(const PipelineSchedule& schedule) {
  for (const PipelineActions& actions : schedule.by_rank)
    for (size_t i = 1; i < actions.size(); ++i)
      if (actions[i].op == PipelineOp::W &&
          actions[i - 1] != PipelineAction{actions[i].stage, PipelineOp::I, actions[i].microbatch})
        return false;
  return true;
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
    for (const int p : exercise::ranks({3, 1, 2, 4, 8})) visit(p, int64_t{3} * p, k);
}

PipelineSchedule yours_v(int p, int64_t m) {
  PipelineSchedule made{"your ZB-V", p, 2 * p, m, {}, Placement::vee};
  for (int rank = 0; rank < p; ++rank) made.by_rank.push_back(solution.zb_v(rank, p, m));
  return made;
}

// What is in the way of the last rank's first I, which all others wait for.
std::string why_idle_v(const PipelineSchedule& schedule) {
  const PipelineActions& last = schedule.by_rank.back();
  int64_t before = 0;  // F of the way down that it runs before its first F of the way up
  for (const PipelineAction& each : last) {
    if (each.stage >= schedule.ranks) break;
    before += each.op == PipelineOp::F;
  }
  if (before > 1)
    return fmt::format(
        "the last rank runs {} F on the way down before its first on the way up, and rank 0 waits "
        "for that one",
        before);
  const auto is_w = [](const PipelineAction& each) { return each.op == PipelineOp::W; };
  const auto first_w = std::find_if(last.begin(), last.end(), is_w);
  if (std::all_of(first_w, last.end(), is_w))
    return "all W come last, and a rank that waits for an I has none to run";
  const PipelineActions& first = schedule.by_rank[0];  // it has the last stage
  const auto last_f = std::find_if(first.begin(), first.end(), [&](const PipelineAction& each) {
    return each.stage == schedule.stages - 1;
  });
  if (last_f + 1 == first.end() || (last_f + 1)->op != PipelineOp::I)
    return "a microbatch's first I follows its last F at once";
  return "towards the end rank r passes on r I of each chunk in turn, chunk 0 first, before it "
         "runs "
         "their W: the ranks before it wait for an I, and nobody waits for a W";
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * (1 + std::abs(b)); }

}  // namespace

TEST_CASE("19.1: microbatches held at most: before I, and between I and W") {
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

TEST_CASE("19.2: F, I and W of every microbatch once on every stage, and nobody waits forever") {
  each_size([](int p, int64_t m, int k) { timeline_of(yours(p, m, k), k); });
  for (const int k : {1, 2})
    for (const auto& [p, m] : {std::pair{8, 5}, {4, 1}, {3, 2}}) timeline_of(yours(p, m, k), k);
  CHECK(true);
}

TEST_CASE("19.2: H1 leaves a third of 1F1B's bubble, H2 nothing") {
  each_size([](int p, int64_t m, int k) {
    const PipelineSchedule schedule = yours(p, m, k);
    const double idle = longest_idle(timeline_of(schedule, k));
    const int allowed = k == 1 ? p - 1 : 0;
    std::string why =
        "a rank waits while it has W to run, or runs W when the next I could be on its way up";
    if (w_at_once(schedule))
      why =
          "right, but each W follows its I at once: a rank is busy with W when the next I could be "
          "on its way up, and waits for one later";
    else if (k == 2 && near(idle, p - 1))
      why = "that is H1: p - 1 more forwards fit in before the first I";
    expect(near(idle, allowed),
           fmt::format("ZB-H{}, p = {}, m = {}: a rank is idle for {} units, {} allowed: {}{}", k,
                       p, m, idle, allowed, why, beside(schedule, right(schedule, k))));
  });
}

TEST_CASE("19.2: H1 holds what 1F1B does, H2 less than twice of it") {
  each_size([](int p, int64_t m, int k) {
    const PipelineSchedule schedule = yours(p, m, k);
    timeline_of(schedule, k);
    for (int rank = 0; rank < p; ++rank) {
      const Held most = most_held(schedule.by_rank[static_cast<size_t>(rank)]);
      const int64_t in_flight = most_in_flight(schedule.by_rank[static_cast<size_t>(rank)]);
      const int64_t allowed = k * (p - 1) + 1;
      expect(
          in_flight <= allowed && most.before_input <= k * (p - 1 - rank) + 1,
          fmt::format("ZB-H{}: rank {} of {} holds {} microbatches until their W, {} allowed: a W "
                      "may wait k (p - 1) turns after its F, no longer{}",
                      k, rank, p, in_flight, allowed, beside(schedule, right(schedule, k))));
    }
  });
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

TEST_CASE("19.3: a rank that begins later has not been idle before") {
  const PipelineSchedule schedule = zero_bubble_schedule(ZeroBubble::H2, 4, 8);
  const PipelineTimeline timeline = simulate(schedule);
  const double rate = solution.bubble_rate(schedule, {});
  std::string why;
  if (near(rate, 1 - 24 / timeline.length))
    why = fmt::format(
        ": you take the time until the last rank ends, {:g}. No rank works or waits so long: each "
        "begins later than the one before, and the next step can follow at once",
        timeline.length);
  expect(near(rate, 0), fmt::format("ZB-H2, p = 4, m = 8, F = I = W: you say {:.4f}, it is 0{}\n{}",
                                    rate, why, picture(timeline)));
}

TEST_CASE("19.3: a rank with two chunks works for both, and any rank may take longest") {
  const PipelineSchedule schedule = zb_v_schedule(4, 8);
  const PipelineCosts costs{1, 1, 2};
  const PipelineTimeline timeline = simulate(schedule, costs);
  const double rate = solution.bubble_rate(schedule, costs), expected = 2.0 / 66;
  std::string why;
  if (near(rate, 34.0 / 66)) why = ": every microbatch goes through both chunks of a rank";
  if (near(rate, 0)) why = ": rank 0's span is 64 units, but rank 3's is 66";
  expect(near(rate, expected), fmt::format("ZB-V, p = 4, m = 8, F 1, I 1, W 2: you say {:.4f}, it "
                                           "is {:.4f}{}\n{}",
                                           rate, expected, why, picture(timeline)));
}

TEST_CASE("19.3: the rate is the same in any unit of time") {
  const PipelineSchedule schedule = make_schedule(PipelineKind::one_f_one_b, 4, 8);
  const double in_seconds = solution.bubble_rate(schedule, {1e-4, 1e-4, 1e-4});
  const double expected = bubble_of_total(4, 8);
  expect(near(in_seconds, expected),
         fmt::format("1F1B, p = 4, m = 8, F, I and W of 0.0001 each: you say {:.4f}, it is {:.4f}, "
                     "as with F, I and W of 1",
                     in_seconds, expected));
}

TEST_CASE("19.4: when a rank could begin its next F, I or W, at every moment of a run") {
  const PipelineCosts costs{3, 4, 2, 0.5};
  const int p = 3;
  const int64_t m = 5, hold = 4;
  constexpr double never = std::numeric_limits<double>::infinity();
  constexpr PipelineOp all_ops[] = {PipelineOp::F, PipelineOp::I, PipelineOp::W};
  std::vector<GreedyRank> ranks(p);
  for (int64_t left = 3 * m * p; left > 0; --left) {
    double first = never;
    int who = 0;
    PipelineOp what = PipelineOp::F;
    for (const PipelineOp op : all_ops)
      for (int rank = 0; rank < p; ++rank) {
        const double expected = yotta::can_begin(op, rank, ranks, m, hold, costs);
        std::vector<exercise::Rank> same;
        for (const GreedyRank& each : ranks)
          same.push_back({each.forward, each.input, each.weights, each.free});
        const double found = solution.can_begin(op, rank, same, m, hold, costs);
        if (expected < first) first = expected, who = rank, what = op;
        if (found == expected) continue;
        const GreedyRank& mine = ranks[static_cast<size_t>(rank)];
        const auto f = std::ssize(mine.forward), i = std::ssize(mine.input);
        std::string why;
        if (expected == never && op == PipelineOp::F && f < m)
          why = f - mine.weights >= hold || f - i >= may_wait_for_input(rank, p, hold)
                    ? ": one more F is more than the rank may hold"
                    : ": the rank before it has not run this F";
        if (expected == never && op != PipelineOp::F)
          why = ": what it needs has not run, or there is none left";
        if (expected < never && near(found, expected - costs.message))
          why = ": a message takes time too";
        if (expected < never && near(found, expected + costs.message))
          why = ": a message can travel while the rank still works";
        if (found < mine.free) why = ": the rank is not free so early";
        if (found == never) why = ": all it needs is there";
        FAIL(
            fmt::format("rank {} of {} has run {} F, {} I and {} W, is free from {:g} on and may "
                        "hold {} (F 3, I 4, W 2, a message 0.5): its next {} can begin at {:g}, "
                        "and you say {:g}{}",
                        rank, p, f, i, mine.weights, mine.free, hold, "FBIW"[static_cast<int>(op)],
                        expected, found, why));
      }
    GreedyRank& mine = ranks[static_cast<size_t>(who)];
    mine.free = first + seconds(costs, what);
    if (what == PipelineOp::F) mine.forward.push_back(mine.free);
    if (what == PipelineOp::I) mine.input.push_back(mine.free);
    mine.weights += what == PipelineOp::W;
  }
  CHECK(true);
}

TEST_CASE("19.5: the greedy schedule is complete, and no rank holds more than it may") {
  for (const PipelineCosts& costs : {PipelineCosts{}, PipelineCosts{3, 4, 2, 0.5}})
    for (const auto& [p, m] : {std::pair{3, 6}, {1, 2}, {4, 2}, {2, 8}})
      for (const int64_t hold : {p, 2 * p - 1, p + 1, 1}) {
        const PipelineSchedule made = solution.greedy(p, m, hold, costs);
        const PipelineSchedule allowed = greedy_schedule(p, m, hold, costs);
        complaining(made, allowed, [&] { return simulate(made, costs); });
        for (const PipelineActions& actions : made.by_rank)
          expect(most_in_flight(actions) <= hold,
                 fmt::format("a rank holds {} microbatches, {} allowed{}", most_in_flight(actions),
                             hold, beside(made, allowed)));
      }
}

TEST_CASE("19.5: from p to 2p - 1, each microbatch more in memory saves one unit of idle time") {
  for (const int p : exercise::ranks({3, 2, 4, 8}))
    for (int64_t hold = p; hold < 2 * p; ++hold) {
      const int64_t m = 3 * p;
      const PipelineSchedule made = solution.greedy(p, m, hold, {});
      const PipelineSchedule allowed = greedy_schedule(p, m, hold, {});
      const double idle = longest_idle(complaining(made, allowed, [&] { return simulate(made); }));
      expect(
          idle <= static_cast<double>(2 * p - 1 - hold) + 1e-9,
          fmt::format("F = I = W, {} microbatches held at most: a rank is idle for {:g} units, {} "
                      "allowed{}",
                      hold, idle, 2 * p - 1 - hold, beside(made, allowed)));
    }
}

TEST_CASE("19.5: with any times, the action that can begin first is next") {
  const PipelineCosts costs{3, 4, 2, 1.5};
  for (const auto& [p, m] : {std::pair{2, 3}, {3, 6}, {4, 8}})
    for (const int64_t hold : {p, 2 * p - 1}) {
      const PipelineSchedule made = solution.greedy(p, m, hold, costs);
      const PipelineSchedule allowed = greedy_schedule(p, m, hold, costs);
      complaining(made, allowed, [&] { return simulate(made, costs); });
      for (size_t rank = 0; rank < made.by_rank.size(); ++rank)
        for (size_t n = 0; n < made.by_rank[rank].size(); ++n) {
          const PipelineAction yours = made.by_rank[rank][n], first = allowed.by_rank[rank][n];
          expect(
              yours == first,
              fmt::format("F 3, I 4, W 2, a message 1.5, {} microbatches held at most: action {} "
                          "of rank {} is {} in your list, and {} can begin first{}",
                          hold, n, rank, str(yours), str(first), beside(made, allowed, costs)));
        }
    }
}

TEST_CASE("19.6: ZB-V has every F, I and W of both chunks once, and nobody waits forever") {
  for (const auto& [p, m] : {std::pair{2, 4}, {3, 5}, {1, 2}, {4, 12}, {4, 2}, {3, 1}}) {
    const PipelineSchedule schedule = yours_v(p, m);
    complaining(schedule, zb_v_schedule(p, m), [&] { return simulate(schedule); });
  }
  CHECK(true);
}

TEST_CASE("19.6: ZB-V leaves no rank idle, and none holds more than 2p half stages") {
  for (const int p : {2, 3, 1, 4, 8})
    for (const int64_t m : {2 * p - 1, 3 * p}) {
      const PipelineSchedule schedule = yours_v(p, m), allowed = zb_v_schedule(p, m);
      const double idle =
          longest_idle(complaining(schedule, allowed, [&] { return simulate(schedule); }));
      expect(near(idle, 0),
             fmt::format("ZB-V, p = {}, m = {}, F = I = W: a rank is idle for {} units, none "
                         "allowed: {}{}",
                         p, m, idle, why_idle_v(schedule), beside(schedule, allowed)));
      for (int rank = 0; rank < p; ++rank) {
        const int64_t held = most_in_flight(schedule.by_rank[static_cast<size_t>(rank)]);
        expect(held <= 2 * p,
               fmt::format("rank {} of {} holds {} half stages until their W, {} allowed: as much "
                           "as 1F1B's first rank{}",
                           rank, p, held, 2 * p, beside(schedule, allowed)));
      }
    }
}
