#include "yotta/parallel/pipeline_search.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/message_of.hpp"
#include "support/pipeline_run.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

const PipelineCosts times[] = {{},           {1, 1, 0.5},  {18.5, 18.1, 9.3, 0.6},
                               {3, 1, 4, 1}, {2, 3, 1, 2}, {1, 2, 0, 0.25}};

// All orders of one rank's actions in which it holds at most `hold` microbatches.
void all_orders(int rank, int64_t m, int64_t hold, int64_t f, int64_t i, int64_t w,
                PipelineActions& now, std::vector<PipelineActions>& found) {
  if (w == m) found.push_back(now);
  const auto with = [&](PipelineOp op, int64_t n, int64_t df, int64_t di, int64_t dw) {
    now.push_back({rank, op, n});
    all_orders(rank, m, hold, f + df, i + di, w + dw, now, found);
    now.pop_back();
  };
  if (f < m && f - w < hold) with(PipelineOp::F, f, 1, 0, 0);
  if (i < f) with(PipelineOp::I, i, 0, 1, 0);
  if (w < i) with(PipelineOp::W, w, 0, 0, 1);
}

// The least bubble rate of all orders of all ranks, one after the other.
double by_brute_force(int p, int64_t m, int64_t hold, const PipelineCosts& costs) {
  std::vector<std::vector<PipelineActions>> orders(static_cast<size_t>(p));
  size_t all = 1;
  for (int rank = 0; rank < p; ++rank) {
    PipelineActions now;
    all_orders(rank, m, hold, 0, 0, 0, now, orders[static_cast<size_t>(rank)]);
    all *= orders[static_cast<size_t>(rank)].size();
  }
  double least = 1;
  PipelineSchedule schedule{"any", p, p, m, std::vector<PipelineActions>(orders.size())};
  for (size_t number = 0; number < all; ++number) {
    size_t rest = number;
    for (size_t rank = 0; rank < orders.size(); ++rank) {
      schedule.by_rank[rank] = orders[rank][rest % orders[rank].size()];
      rest /= orders[rank].size();
    }
    const PipelineTimeline timeline = simulate_as_far(schedule, costs);
    double longest = 0;
    bool whole = true;
    for (size_t rank = 0; rank < orders.size(); ++rank) {
      const std::vector<PipelineEvent>& events = timeline.by_rank[rank];
      whole = whole && events.size() == schedule.by_rank[rank].size();
      if (whole) longest = std::max(longest, events.back().end - events.front().begin);
    }
    const double work = static_cast<double>(m) * (costs.forward + costs.input + costs.weight);
    if (whole) least = std::min(least, 1 - work / longest);
  }
  return least;
}

}  // namespace

TEST_CASE("exact: no order of all is better, p = 2 with m = 3 and p = 3 with m = 2") {
  for (const PipelineCosts& costs : times)
    for (const auto& [p, m] : {std::pair{1, 3}, std::pair{2, 3}, std::pair{3, 2}})
      for (int64_t hold = 1; hold <= m; ++hold) {
        CAPTURE(p);
        CAPTURE(hold);
        CHECK(bubble_rate(best_schedule(p, m, hold, costs), costs) ==
              doctest::Approx(by_brute_force(p, m, hold, costs)).epsilon(1e-9));
      }
}

TEST_CASE("exact <= searched <= every rule, within the memory, and more memory is never worse") {
  for (const PipelineCosts& costs : times)
    for (const auto& [p, m] : {std::pair{2, 6}, std::pair{4, 4}, std::pair{4, 6}}) {
      double before = 1;
      for (int64_t hold = 1; hold <= m; ++hold) {
        CAPTURE(p);
        CAPTURE(hold);
        const PipelineSchedule exact = best_schedule(p, m, hold, costs);
        const double best = bubble_rate(exact, costs);
        const double searched = bubble_rate(searched_schedule(p, m, hold, costs), costs);
        CHECK(best <= searched + 1e-12);
        CHECK(searched <= bubble_rate(greedy_schedule(p, m, hold, costs), costs) + 1e-12);
        CHECK(best <= before + 1e-12);
        for (const PipelineActions& each : exact.by_rank) CHECK(most_in_flight(each) <= hold);
        before = best;
      }
    }
}

// Spans that another program found, with bounds of its own.
TEST_CASE("exact: the longest spans of 4 ranks and 6 microbatches are 410.4, 364.5, 351.6, 342.3") {
  const double work = 6 * (18.5 + 18.1 + 9.3);
  for (const auto& [hold, span] :
       {std::pair{2, 531.9}, {3, 410.4}, {4, 364.5}, {5, 351.6}, {6, 342.3}}) {
    CAPTURE(hold);
    const PipelineCosts costs{18.5, 18.1, 9.3, 0.6};
    CHECK(work / (1 - bubble_rate(best_schedule(4, 6, hold, costs), costs)) ==
          doctest::Approx(span).epsilon(1e-9));
  }
}

TEST_CASE(
    "with equal times a rank of the best order is idle for 2p - 1 - hold units, as greedy's") {
  for (int64_t hold = 4; hold <= 6; ++hold) {
    const double rate = bubble_rate(best_schedule(4, 6, hold, {}), {});
    CHECK(18 * rate / (1 - rate) == doctest::Approx(static_cast<double>(7 - hold)));
  }
}

TEST_CASE("the rule without patience is greedy_schedule; patience finds ZB-H1's rate, .1585") {
  const PipelineCosts measured{18.522, 18.086, 9.337, .601};
  for (const int64_t hold : {8, 12, 20})
    CHECK(greedy_by_rule({}, 8, 24, hold, measured).by_rank ==
          greedy_schedule(8, 24, hold, measured).by_rank);
  const auto rate = [&](int64_t hold) {
    return bubble_rate(searched_schedule(8, 24, hold, measured), measured);
  };
  CHECK(bubble_rate(greedy_schedule(8, 24, 8, measured), measured) > 0.19);
  CHECK(rate(8) <= bubble_rate(zero_bubble_schedule(ZeroBubble::H1, 8, 24), measured) + 1e-9);
  CHECK(rate(15) <= bubble_rate(zero_bubble_schedule(ZeroBubble::H2, 8, 24), measured) + 1e-9);
  CHECK(rate(24) < 0.05);
}

TEST_CASE("searched: complete and within its memory for any sizes; ranks run what was found") {
  for (const PipelineCosts& costs : times)
    for (const int p : {1, 2, 5})
      for (const int64_t m : {1, 4, 9})
        for (const int64_t hold : {1, 3, 20})
          for (const PipelineActions& each : searched_schedule(p, m, hold, costs).by_rank)
            CHECK(most_in_flight(each) <= hold);
  const PipelineSchedule found = best_schedule(3, 5, 3, {1, 2, 1});
  const PipelineRun run = run_pipeline(found, {1, 2, 1});
  CHECK(run.seconds == doctest::Approx(simulate(found, {1, 2, 1}).length));
  CHECK(run.gradients ==
        run_pipeline(make_schedule(PipelineKind::one_f_one_b, 3, 5), {}).gradients);
}

TEST_CASE("what the search does not take is said") {
  CHECK(contains(message_of([] { best_schedule(5, 6, 5, {}); }), "at most 4 ranks and 6"));
  CHECK(contains(message_of([] { best_schedule(4, 7, 5, {}); }), "not 4 and 7"));
  CHECK(contains(message_of([] { searched_schedule(2, 4, 0, {}); }), "0 held"));
  for (const double wrong : {-1.0, std::nan(""), HUGE_VAL})
    for (const PipelineCosts& costs :
         {PipelineCosts{wrong}, PipelineCosts{1, 1, wrong}, PipelineCosts{1, 1, 1, wrong}}) {
      const char* const said = "each takes 0 seconds or more";
      CHECK(contains(message_of([&] { searched_schedule(2, 4, 2, costs); }), said));
      CHECK(contains(message_of([&] { best_schedule(2, 4, 2, costs); }), said));
      CHECK(contains(message_of([&] { greedy_schedule(2, 4, 2, costs); }), said));
    }
}

TEST_CASE("where nothing takes time any complete schedule is found, not an empty one") {
  const PipelineCosts none{0, 0, 0};
  CHECK(simulate(searched_schedule(2, 8, 2, none), none).by_rank.size() == 2);
  CHECK(simulate(best_schedule(2, 4, 2, none), none).by_rank.size() == 2);
}
