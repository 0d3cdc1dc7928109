// The automatic scheduler: from the times of F, I, W and a message, and a limit of memory, to an
// order of all actions. Two ways:
//
//     greedy, several times     a rule makes a schedule in one pass; a few rules, the best is taken
//     exact                     branch and bound: the best of all orders, for p <= 4 and m <= 6
//
// What is best: the least bubble rate (zero_bubble.hpp), which is the longest span of a rank, from
// its first action's begin to its last one's end. The limit: a rank holds at most `hold`
// microbatches between F and W.
//
// Greedy. Of all actions of all ranks the one that can begin first is next, as in greedy_schedule.
// Two things that it decides are bad for some times, so here they are choices:
//
//     patience   a W that can begin now delays an I that can begin soon, and with it all ranks
//                before. So begin a W only if so much of it fits in before the rank's next F or I.
//     ahead      how many F a rank runs before their I: fewer on later ranks, or as many as hold
//
// Exact. Three facts make the search small.
//     Order      Microbatches are alike, so each op runs them in order; a rank's state is three
//                numbers and the time since which it is free.
//     Branching  Every rank's first action begins when the first microbatch comes, so the measure
//                never gains from a delay. Then some best order is active: no action could begin
//                earlier without delaying another. Let e be the earliest end of all actions that
//                may be next, on rank r. Then next on r is one of those that can begin before e
//                (Giffler and Thompson): at most three branches.
//     Bounds     A rank's work is not done before it is free plus what is left of its work; and of
//                two ways to the same counts, one may be as early everywhere: the other is dropped.
//
// Cost: greedy 3 p m steps for each of ten rules; exact a tenth of a second in the limits given.
//
// Letters: p ranks, m microbatches. Contract: one stage per rank, all alike; times >= 0 and finite.
// References: Qi et al. (2023), Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 3 (its
// heuristic, and an integer program in place of our exact search); Giffler and Thompson (1960),
// Algorithms for solving production-scheduling problems.
#pragma once

#include <limits>
#include <map>

#include "yotta/parallel/zero_bubble.hpp"

namespace yotta {

// Greedy's choices.
struct GreedyRule {
  double patience = 0;      // of a W's time that must fit in before the next F or I; 0 to 1
  bool fewer_ahead = true;  // on later ranks: may_wait_for_input
};

namespace detail {

constexpr double never = std::numeric_limits<double>::infinity();

// Lists that grow action by action, and the time of each.
class GrowingSchedule {
 public:
  GrowingSchedule(int p, int64_t m, int64_t hold, const PipelineCosts& costs)
      : m_(m), hold_(hold), costs_(costs), ranks_(static_cast<size_t>(p)), lists_(ranks_.size()) {}

  int p() const { return static_cast<int>(ranks_.size()); }
  const GreedyRank& rank(int r) const { return ranks_[static_cast<size_t>(r)]; }
  int64_t waiting_for_input(int r) const {
    return std::ssize(rank(r).forward) - std::ssize(rank(r).input);
  }

  // When the rank's next F, I or W could begin; never, if it may not.
  double begin(PipelineOp op, int r) const {
    const GreedyRank& mine = rank(r);
    const auto f = std::ssize(mine.forward), i = std::ssize(mine.input);
    if (op == PipelineOp::W) return mine.weights < i ? mine.free : never;
    if (op == PipelineOp::F && (f == m_ || f - mine.weights >= hold_)) return never;
    if (op == PipelineOp::I && i == f) return never;
    return arrival(op, r, op == PipelineOp::F ? f : i);
  }
  double end(PipelineOp op, int r) const { return begin(op, r) + seconds(costs_, op); }

  // When the number-th message for F or I can be used; never, if it has not been sent.
  double arrival(PipelineOp op, int r, int64_t number) const {
    const int from = op == PipelineOp::F ? r - 1 : r + 1;
    if (from < 0 || from == p()) return rank(r).free;
    const std::vector<double>& ends = op == PipelineOp::F ? rank(from).forward : rank(from).input;
    if (std::ssize(ends) <= number) return never;
    return std::max(rank(r).free, ends[static_cast<size_t>(number)] + costs_.message);
  }

  void add(PipelineOp op, int r) {
    GreedyRank& mine = ranks_[static_cast<size_t>(r)];
    const double done = end(op, r);
    const int64_t number = op == PipelineOp::F   ? std::ssize(mine.forward)
                           : op == PipelineOp::I ? std::ssize(mine.input)
                                                 : mine.weights;
    if (op == PipelineOp::F) mine.forward.push_back(done);
    if (op == PipelineOp::I) mine.input.push_back(done);
    if (op == PipelineOp::W) ++mine.weights;
    mine.free = done;
    lists_[static_cast<size_t>(r)].push_back({r, op, number});
  }
  // Takes the rank's last action back; until then it was free since `free`.
  void remove(int r, double free) {
    GreedyRank& mine = ranks_[static_cast<size_t>(r)];
    PipelineActions& list = lists_[static_cast<size_t>(r)];
    if (list.back().op == PipelineOp::F) mine.forward.pop_back();
    if (list.back().op == PipelineOp::I) mine.input.pop_back();
    if (list.back().op == PipelineOp::W) --mine.weights;
    list.pop_back();
    mine.free = free;
  }

  // The longest span, if each rank goes on without a break; what it will be, if all is done.
  double least_span() const {
    double span = 0;
    for (int r = 0; r < p(); ++r) {
      const GreedyRank& mine = rank(r);
      const double first = r * (costs_.forward + costs_.message);
      const auto left = [&](int64_t done) { return static_cast<double>(m_ - done); };
      span = std::max(span, std::max(mine.free, first) +
                                left(std::ssize(mine.forward)) * costs_.forward +
                                left(std::ssize(mine.input)) * costs_.input +
                                left(mine.weights) * costs_.weight - first);
    }
    return span;
  }

  PipelineSchedule schedule(std::string name) const {
    return {std::move(name), p(), p(), m_, lists_};
  }

 private:
  int64_t m_, hold_;
  PipelineCosts costs_;
  std::vector<GreedyRank> ranks_;
  std::vector<PipelineActions> lists_;
};
constexpr PipelineOp search_ops[] = {PipelineOp::F, PipelineOp::I, PipelineOp::W};

// When greedy would begin an action.
inline double begin_by_rule(const GreedyRule& rule, const GrowingSchedule& so_far, PipelineOp op,
                            int r, int64_t hold, const PipelineCosts& costs) {
  const bool limited =
      rule.fewer_ahead && so_far.waiting_for_input(r) >= may_wait_for_input(r, so_far.p(), hold);
  const double f = limited ? never : so_far.begin(PipelineOp::F, r);
  if (op == PipelineOp::F) return f;
  const double i = so_far.begin(PipelineOp::I, r);
  if (op == PipelineOp::I) return i;
  const double now = so_far.begin(op, r);
  return std::min(f, i) - now < rule.patience * costs.weight ? never : now;
}

}  // namespace detail

// One pass with these. patience 0 and fewer_ahead: greedy_schedule.
inline PipelineSchedule greedy_by_rule(const GreedyRule& rule, int p, int64_t m, int64_t hold,
                                       const PipelineCosts& costs, Where where = Where::current()) {
  detail::check_limits(p, m, hold, costs, where);
  detail::GrowingSchedule made(p, m, hold, costs);
  for (int64_t left = 3 * m * p; left > 0; --left) {
    double first = detail::never;
    int on = -1;
    PipelineOp next = PipelineOp::F;
    for (const PipelineOp op : detail::search_ops)
      for (int r = 0; r < p; ++r) {
        const double begin = detail::begin_by_rule(rule, made, op, r, hold, costs);
        if (begin < first) first = begin, on = r, next = op;
      }
    made.add(next, on);
  }
  return made.schedule(fmt::format("greedy, {} held, patience {:g}{}", hold, rule.patience,
                                   rule.fewer_ahead ? "" : ", all ahead"));
}

// The best of all rules.
inline PipelineSchedule searched_schedule(int p, int64_t m, int64_t hold,
                                          const PipelineCosts& costs,
                                          Where where = Where::current()) {
  PipelineSchedule best;
  double least = detail::never;
  for (const bool fewer_ahead : {true, false})
    for (const double patience : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      PipelineSchedule made = greedy_by_rule({patience, fewer_ahead}, p, m, hold, costs, where);
      const double rate = bubble_rate(made, costs);
      if (best.by_rank.empty() || rate < least) least = rate, best = std::move(made);
    }
  return best;
}

// The best of all orders. Errors: more than 4 ranks or 6 microbatches.
constexpr bool can_be_exact(int p, int64_t m) { return p <= 4 && m <= 6; }

namespace detail {

// Branch and bound over active schedules.
class BestOrder {
 public:
  BestOrder(GrowingSchedule start, PipelineSchedule found, double span)
      : so_far_(std::move(start)), best_(std::move(found)), span_(span) {}

  PipelineSchedule search() {
    branch();
    return std::move(best_);
  }

 private:
  static constexpr double rounding = 1e-9;  // of a span

  void branch() {
    double earliest = never;
    int r = -1;
    for (int each = 0; each < so_far_.p(); ++each)
      for (const PipelineOp op : search_ops)
        if (so_far_.end(op, each) < earliest) earliest = so_far_.end(op, each), r = each;
    if (so_far_.least_span() >= span_ * (1 - rounding)) return;
    if (r < 0) {  // all is done
      span_ = so_far_.least_span();
      best_ = so_far_.schedule(best_.name);
      return;
    }
    if (is_dominated()) return;
    for (const PipelineOp op : search_ops) {
      const double free = so_far_.rank(r).free, begin = so_far_.begin(op, r);
      if (begin == never || (begin >= earliest && so_far_.end(op, r) > earliest)) continue;
      so_far_.add(op, r);
      branch();
      so_far_.remove(r, free);
    }
  }

  // Has another way led to the same counts, and nowhere later? If not, this one is kept.
  bool is_dominated() {
    std::vector<int64_t> counts;
    std::vector<double> times;  // when ranks are free, and when what has been sent can be used
    for (int r = 0; r < so_far_.p(); ++r) {
      const GreedyRank& mine = so_far_.rank(r);
      const auto f = std::ssize(mine.forward), i = std::ssize(mine.input);
      counts.insert(counts.end(), {f, i, mine.weights});
      times.push_back(mine.free);
      for (int64_t n = f; r > 0 && n < std::ssize(so_far_.rank(r - 1).forward); ++n)
        times.push_back(so_far_.arrival(PipelineOp::F, r, n));
      for (int64_t n = i; r + 1 < so_far_.p() && n < std::ssize(so_far_.rank(r + 1).input); ++n)
        times.push_back(so_far_.arrival(PipelineOp::I, r, n));
    }
    std::vector<std::vector<double>>& others = seen_[counts];
    for (const std::vector<double>& each : others)
      if (std::equal(times.begin(), times.end(), each.begin(),
                     [](double mine, double other) { return other <= mine; }))
        return true;
    others.push_back(std::move(times));
    return false;
  }

  GrowingSchedule so_far_;
  PipelineSchedule best_;
  double span_;
  std::map<std::vector<int64_t>, std::vector<std::vector<double>>> seen_;
};

}  // namespace detail

inline PipelineSchedule best_schedule(int p, int64_t m, int64_t hold, const PipelineCosts& costs,
                                      Where where = Where::current()) {
  if (!can_be_exact(p, m))
    fail(where, "the exact search takes at most 4 ranks and 6 microbatches, not {} and {}", p, m);
  PipelineSchedule found = searched_schedule(p, m, hold, costs, where);
  found.name = fmt::format("best, {} held", hold);
  const double work = static_cast<double>(m) * (costs.forward + costs.input + costs.weight);
  const double span = work / (1 - bubble_rate(found, costs));
  return detail::BestOrder(detail::GrowingSchedule(p, m, hold, costs), found, span).search();
}

}  // namespace yotta
