// Zero bubble: fill a pipeline's idle time with weight gradients.
//
// A backward pass B computes two things: dx, for which the stage before is waiting (I, dgrad), and
// dw, which is not needed before the optimizer's step (W, wgrad). 1F1B does both at once. Put W
// off, and the chain of dx runs ahead, while W fills what was the bubble:
//
//     p = 3, m = 5, F, I and W take one unit each
//     1F1B      rank 0   F0 F1 F2 .. .. .. .. B0--- F3 B1--- F4 B2--- .. B3--- .. B4---
//               rank 1   .. F0 F1 .. .. B0--- F2 B1--- F3 B2--- F4 B3--- .. B4--- .. ..
//               rank 2   .. .. F0 B0--- F1 B1--- F2 B2--- F3 B3--- F4 B4--- .. .. .. ..
//     ZB-H1     rank 0   F0 F1 F2 .. .. I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
//               rank 1   .. F0 F1 .. I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
//               rank 2   .. .. F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4
//
// ZB-H1 puts W off as far as 1F1B's memory allows. ZB-H2 starts p - 1 more forwards before the
// first W, which doubles the memory, and then nothing is idle between a rank's first and last
// action (if F = I = W).
//
//               idle time of a rank         microbatches held at most, by the fullest rank
//     1F1B      (p-1)(F + I + W)            p
//     ZB-H1     (p-1)(F + I - W)            p
//     ZB-H2     (p-1)(F + I - 2W)           2p - 1
//     ZB-V      2 (p-1)(I - W)              2p, each of half a stage
//
// ZB-V folds the model: down the ranks through their first chunks, up again through the second. So
// the first rank also has the last stage, whose I is the first that can run, and a tied table has
// both its ends there: nothing of it travels. With F = I = W nothing is idle, in 1F1B's memory.
// Between and beyond these there is a schedule for any limit of memory: greedy_schedule;
// pipeline_search.hpp has better ones.
//
// A microbatch holds all that backward needs until its I, and x and dy of the linear layers until
// its W. For the gain to last over steps, the optimizer's step must not wait for other ranks: the
// paper checks the norm after the step and rolls back.
// Letters: p ranks, m microbatches. The papers call I "B", and their B and W are our
// I and W. DeepSeek's tables write B for the whole: their "ZB1P (p-1)(F + B - 2W)" is ZB-H1.
// Contract: the formulas hold for m >= 2p - 1 and W <= I, F (ZB-V: W <= F <= I, each of a chunk).
// Any p and m run; pipeline.hpp runs them as they are.
// References: Qi et al. (2023), Zero Bubble Pipeline Parallelism, arXiv 2401.10241, sections 2 and
// 4.
#pragma once

#include <limits>

#include "yotta/parallel/pipeline_timeline.hpp"

namespace yotta {

// How far W is put off: H1 keeps 1F1B's memory, H2 twice of it.
enum class ZeroBubble : uint8_t { H1 = 1, H2 = 2 };
constexpr const char* name(ZeroBubble kind) { return kind == ZeroBubble::H1 ? "ZB-H1" : "ZB-H2"; }

// A rank's actions. Turn x is F of microbatch x, I of the one that can be back by now, and W of the
// one that went forward k(p - 1) turns ago.
inline PipelineActions zero_bubble_actions(int rank, int p, int64_t m, ZeroBubble kind) {
  PipelineActions actions;
  const int64_t k = static_cast<int64_t>(kind);
  const auto add = [&](PipelineOp op, int64_t microbatch) {
    if (microbatch >= 0 && microbatch < m) actions.push_back({rank, op, microbatch});
  };
  for (int64_t x = 0; x < m + k * (p - 1); ++x) {
    add(PipelineOp::F, x);
    add(PipelineOp::I, x - k * (p - 1 - rank));
    add(PipelineOp::W, x - k * (p - 1));
  }
  return actions;
}

// All ranks' actions, for m microbatches on p ranks of one stage each. Errors: p or m below 1.
inline PipelineSchedule zero_bubble_schedule(ZeroBubble kind, int p, int64_t m,
                                             Where where = Where::current()) {
  if (p < 1 || m < 1)
    fail(where, "a pipeline of {} ranks, {} microbatches: each is at least 1", p, m);
  PipelineSchedule made{name(kind), p, p, m, {}};
  for (int rank = 0; rank < p; ++rank)
    made.by_rank.push_back(zero_bubble_actions(rank, p, m, kind));
  return made;
}

// The list of a rank of a V. add() appends the next F, I or W of one of its two chunks, if there is
// a microbatch left for it.
class VeeList {
 public:
  VeeList(int rank, int p, int64_t m) : rank_(rank), p_(p), m_(m) {}
  void add(PipelineOp op, int chunk) {
    const int64_t microbatch = next_[static_cast<size_t>(op)][chunk]++;
    if (microbatch < m_)
      actions_.push_back({stage_on(Placement::vee, rank_, chunk, p_), op, microbatch});
  }
  const PipelineActions& actions() const { return actions_; }

 private:
  int rank_, p_;
  int64_t m_;
  int64_t next_[4][2] = {};  // microbatches, by op and chunk
  PipelineActions actions_;
};

// ZB-V: a rank's actions, and all ranks'. Stages as in Placement::vee: chunk 0 of a rank is on the
// way down, chunk 1 on the way up.
inline PipelineActions zb_v_actions(int rank, int p, int64_t m) {
  VeeList list(rank, p, m);
  const auto add = [&](PipelineOp op, int chunk) { list.add(op, chunk); };
  const int64_t all = std::max<int64_t>(m, 2 * p - 1);  // with fewer the lists have gaps
  using enum PipelineOp;
  int64_t down = 0, up = 0, back = 0;  // F of chunk 0 and 1, I of chunk 0
  for (; down < 2 * (p - rank) - 1; ++down) add(F, 0);
  for (; up < rank; ++up, ++down) add(F, 1), add(F, 0);
  for (; up < p; ++up) add(F, 1), add(I, 1), add(W, 1);
  for (; up < all; ++up, ++back) {
    if (down++ < all) add(F, 0);
    add(I, 0), add(W, 0), add(F, 1), add(I, 1), add(W, 1);
  }
  for (int i = 0; i < rank; ++i, ++back) add(I, 0), add(I, 1);
  for (; back < all; ++back) add(I, 0), add(W, 0);
  for (int i = 0; i < rank; ++i) add(W, 1);
  for (int i = 0; i < rank; ++i) add(W, 0);
  return list.actions();
}
inline PipelineSchedule zb_v_schedule(int p, int64_t m, Where where = Where::current()) {
  if (p < 1 || m < 1)
    fail(where, "a pipeline of {} ranks, {} microbatches: each is at least 1", p, m);
  PipelineSchedule made{"ZB-V", p, 2 * p, m, {}, Placement::vee};
  for (int rank = 0; rank < p; ++rank) made.by_rank.push_back(zb_v_actions(rank, p, m));
  return made;
}

// The paper's bubble rate. Of steps that follow each other without waiting, one costs the longest
// time from a rank's first action to its last one's end, and not the whole length. The rate is the
// share of that time in which the rank does not work. An F&B counts as F and B one after the other.
inline double bubble_rate(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  const PipelineTimeline timeline = simulate(schedule, costs);
  double longest = 0;
  for (const std::vector<PipelineEvent>& events : timeline.by_rank)
    if (!events.empty()) longest = std::max(longest, events.back().end - events.front().begin);
  const double work =
      static_cast<double>(schedule.microbatches * (schedule.stages / schedule.ranks)) *
      (costs.forward + costs.input + costs.weight);
  return (longest - work) / longest;
}

// Idle seconds of a rank; k = 0 is 1F1B.
constexpr double zero_bubble_idle(int k, int p, const PipelineCosts& costs) {
  const double w = k == 0 ? costs.weight : -k * costs.weight;
  return (p - 1) * (costs.forward + costs.input + w);
}

constexpr double zb_v_idle(int p, const PipelineCosts& costs) {
  return 2 * (p - 1) * (costs.input - costs.weight);
}

// Microbatches at the moment when a rank holds most: between F and I, and between I and W.
struct HeldMicrobatches {
  int64_t before_input = 0, before_weight = 0;
  bool operator==(const HeldMicrobatches&) const = default;
};
constexpr HeldMicrobatches held_by_zero_bubble(ZeroBubble kind, int rank, int p) {
  const int64_t k = static_cast<int64_t>(kind);
  return {k * (p - 1 - rank) + 1, k * rank};
}

// ---- a greedy schedule, for any limit of memory ----

// What a rank has done so far: when its F's and I's ended, how many W, and since when it is free.
struct GreedyRank {
  std::vector<double> forward, input;
  int64_t weights = 0;
  double free = 0;

  // Its next F, I or W runs until `end`. Returns the number of its microbatch.
  int64_t run(PipelineOp op, double end) {
    free = end;
    if (op == PipelineOp::W) return weights++;
    std::vector<double>& ends = op == PipelineOp::F ? forward : input;
    ends.push_back(end);
    return std::ssize(ends) - 1;
  }
};

// Of `hold` microbatches that a rank may hold at once, so many may be between F and I. Those wait
// for the ranks after it, so later ranks need fewer. With hold = k (p-1) + 1 these are ZB-Hk's
// numbers.
constexpr int64_t may_wait_for_input(int rank, int p, int64_t hold) {
  return p == 1 ? 1 : (hold - 1) * (p - 1 - rank) / (p - 1) + 1;
}

// When a rank could begin its next F, I or W: infinity, if there is none left, if what it needs has
// not run, or if one more F would be more than the rank may hold.
inline double can_begin(PipelineOp op, int rank, const std::vector<GreedyRank>& ranks, int64_t m,
                        int64_t hold, const PipelineCosts& costs) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const int p = static_cast<int>(ranks.size());
  const GreedyRank& mine = ranks[static_cast<size_t>(rank)];
  const auto f = std::ssize(mine.forward), i = std::ssize(mine.input);  // the next ones' numbers
  const auto after = [&](const std::vector<double>& ends, int64_t number) {
    if (std::ssize(ends) <= number) return never;
    return std::max(mine.free, ends[static_cast<size_t>(number)] + costs.message);
  };
  if (op == PipelineOp::F && f < m && f - mine.weights < hold &&
      f - i < may_wait_for_input(rank, p, hold))
    return rank == 0 ? mine.free : after(ranks[static_cast<size_t>(rank - 1)].forward, f);
  if (op == PipelineOp::I && i < f)
    return rank == p - 1 ? mine.free : after(ranks[static_cast<size_t>(rank + 1)].input, i);
  return op == PipelineOp::W && mine.weights < i ? mine.free : never;
}

namespace detail {

inline void check_limits(int p, int64_t m, int64_t hold, const PipelineCosts& costs, Where where) {
  if (p < 1 || m < 1 || hold < 1)
    fail(where, "a pipeline of {} ranks, {} microbatches, {} held: each is at least 1", p, m, hold);
  for (const double time : {costs.forward, costs.input, costs.weight, costs.message})
    if (!(time >= 0 && time < std::numeric_limits<double>::infinity()))
      fail(where, "F, I, W or a message takes {:g}: each takes 0 seconds or more", time);
}

}  // namespace detail

inline void add_next(PipelineSchedule& made, std::vector<GreedyRank>& ranks, int64_t hold,
                     const PipelineCosts& costs) {
  double first = std::numeric_limits<double>::infinity();
  PipelineAction next{0, PipelineOp::F, 0};
  for (const PipelineOp op : {PipelineOp::F, PipelineOp::I, PipelineOp::W})
    for (int rank = 0; rank < made.ranks; ++rank) {
      const double begin = can_begin(op, rank, ranks, made.microbatches, hold, costs);
      if (begin < first) first = begin, next = {rank, op, 0};
    }
  const auto rank = static_cast<size_t>(next.stage);
  next.microbatch = ranks[rank].run(next.op, first + seconds(costs, next.op));
  made.by_rank[rank].push_back(next);
}

// A schedule without a rule for its order: of all actions of all ranks the one that can begin first
// is next; at the same time F before I before W. With equal times and p <= hold < 2p, a rank is
// idle for 2p - 1 - hold units: every microbatch more in memory saves one.
inline PipelineSchedule greedy_schedule(int p, int64_t m, int64_t hold, const PipelineCosts& costs,
                                        Where where = Where::current()) {
  detail::check_limits(p, m, hold, costs, where);
  PipelineSchedule made{fmt::format("greedy, {} held", hold), p, p, m, {}};
  made.by_rank.resize(static_cast<size_t>(p));
  std::vector<GreedyRank> ranks(static_cast<size_t>(p));
  for (int64_t left = 3 * m * p; left > 0; --left) add_next(made, ranks, hold, costs);
  return made;
}

}  // namespace yotta
