// The timeline of a pipeline schedule: when each action would begin and end, given the times of F,
// I and W.
//
//     an action begins when its rank is free and what it needs is there
//         F of stage s     needs F of stage s - 1, and its message
//         I, B             need their own F, and I or B of stage s + 1, and its message
//         W                needs its own I
//         F&B              needs what F and B need; both results are there at its end
//
// A message delays the receiver and occupies nobody. This is arithmetic on the schedule alone;
// running it on ranks with a virtual clock (pipeline.hpp) gives the same times, and tests compare
// the two. The same arithmetic finds out whether a schedule can run at all: if no rank can go on,
// it names what each waits for.
#pragma once

#include <optional>

#include "yotta/parallel/pipeline_schedule.hpp"

namespace yotta {

// Seconds of one stage and microbatch. B takes as long as I and W. F&B as long as F and B one after
// the other, unless `together` says how long: less, if one's messages pass while the other works.
struct PipelineCosts {
  double forward = 1, input = 1, weight = 1, message = 0;
  std::optional<double> together = {};

  constexpr double of_pair() const { return together.value_or(forward + input + weight); }
};
constexpr double seconds(const PipelineCosts& costs, PipelineOp op) {
  switch (op) {
    case PipelineOp::F: return costs.forward;
    case PipelineOp::B: return costs.input + costs.weight;
    case PipelineOp::I: return costs.input;
    case PipelineOp::W: return costs.weight;
  }
  return 0;
}

struct PipelineEvent {
  PipelineAction action;
  double begin, end;
};

struct PipelineTimeline {
  PipelineSchedule schedule;
  std::vector<std::vector<PipelineEvent>> by_rank;
  double length = 0;  // until the last rank is done

  // Share of all ranks' time in which they work.
  double busy() const {
    double work = 0;
    for (const auto& events : by_rank)
      for (const PipelineEvent& each : events) work += each.end - each.begin;
    return length > 0 ? work / (length * static_cast<double>(by_rank.size())) : 1;
  }
};

namespace detail {

// A number for each action of a schedule.
inline size_t action_index(const PipelineSchedule& schedule, int stage, PipelineOp op,
                           int64_t microbatch) {
  return static_cast<size_t>(
      (static_cast<int>(op) * schedule.stages + stage) * schedule.microbatches + microbatch);
}

// How often each action occurs in a rank's list; throws for one that cannot be there.
inline std::vector<int> counted(const PipelineSchedule& schedule, int rank, Where where) {
  const int64_t m = schedule.microbatches;
  const PipelineActions& all = schedule.by_rank[static_cast<size_t>(rank)];
  std::vector<int> count(static_cast<size_t>(4 * schedule.stages * m));
  for (size_t i = 0; i < all.size(); ++i) {
    const PipelineAction& a = all[i];
    if (a.microbatch < 0 || a.microbatch >= m)
      fail(where, "rank {}: {} does not exist: the microbatches are 0 to {}", rank, str(a), m - 1);
    if (a.stage < 0 || a.stage >= schedule.stages ||
        schedule.rank_of(a.stage, a.microbatch) != rank)
      fail(where, "rank {}: {} is not its: {}", rank, str(a),
           schedule.placement == Placement::loop && schedule.routes.empty()
               ? fmt::format("stage s is on rank s mod {}", schedule.ranks)
               : "it lies on another rank");
    if (++count[action_index(schedule, a.stage, a.op, a.microbatch)] > 1)
      fail(where, "rank {}: {} comes twice", rank, str(a));
    if (a.with_next && (a.op != PipelineOp::F || i + 1 == all.size() ||
                        all[i + 1].op != PipelineOp::B || all[i + 1].with_next))
      fail(where, "rank {}: {} must be an F with a B after it", rank, str(a));
  }
  return count;
}

}  // namespace detail

// Throws unless every rank runs every microbatch through its stages exactly once, and nothing else.
inline void check_complete(const PipelineSchedule& schedule, Where where = Where::current()) {
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const std::vector<int> count = detail::counted(schedule, rank, where);
    const PipelineActions& all = schedule.by_rank[static_cast<size_t>(rank)];
    const bool halves = std::any_of(all.begin(), all.end(), [](const PipelineAction& a) {
      return a.op == PipelineOp::I;  // backward is in two here
    });
    for (int stage = 0; stage < schedule.stages; ++stage)
      for (int64_t i = 0; i < schedule.microbatches; ++i) {
        if (schedule.rank_of(stage, i) != rank) continue;
        const auto of = [&](PipelineOp op) {
          return count[detail::action_index(schedule, stage, op, i)];
        };
        const int dgrad = of(PipelineOp::I), backward = of(PipelineOp::B) + dgrad;
        if (of(PipelineOp::F) == 0) fail(where, "rank {}: {}F{} missing", rank, stage, i);
        if (backward == 0)
          fail(where, "rank {}: {} missing", rank,
               halves ? fmt::format("{0}I{1} and {0}W{1}", stage, i)
                      : fmt::format("{}B{}", stage, i));
        if (backward > 1 || of(PipelineOp::W) != dgrad)
          fail(where, "rank {}: {}B{} must be one B, or one I and one W", rank, stage, i);
      }
  }
}

namespace detail {

// Ends of what has run, by stage and microbatch; negative: not yet.
class PipelineClock {
 public:
  PipelineClock(const PipelineSchedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        forward_(static_cast<size_t>(schedule.stages * schedule.microbatches), -1),
        input_(forward_) {}

  // When all that the action needs is there, or negative if something has not run. A second visit
  // in `missing` gets its name.
  double ready(const PipelineAction& a, PipelineAction* missing = nullptr) const {
    double time = 0;
    const auto need = [&](const std::vector<double>& ends, int stage, PipelineOp op) {
      const double end = ends[index(stage, a.microbatch)];
      const bool travels =
          schedule_.rank_of(stage, a.microbatch) != schedule_.rank_of(a.stage, a.microbatch);
      if (end < 0 && missing != nullptr) *missing = {stage, op, a.microbatch};
      time = end < 0 || time < 0 ? -1 : std::max(time, end + (travels ? costs_.message : 0));
    };
    if (a.op == PipelineOp::F && a.stage > 0) need(forward_, a.stage - 1, PipelineOp::F);
    if (a.op == PipelineOp::W) need(input_, a.stage, PipelineOp::I);
    if (a.op == PipelineOp::I || a.op == PipelineOp::B) {
      need(forward_, a.stage, PipelineOp::F);
      if (a.stage + 1 < schedule_.stages) need(input_, a.stage + 1, a.op);
    }
    return time;
  }
  void ended(const PipelineAction& a, double time) {
    if (a.op == PipelineOp::F) forward_[index(a.stage, a.microbatch)] = time;
    if (a.op == PipelineOp::I || a.op == PipelineOp::B) input_[index(a.stage, a.microbatch)] = time;
  }

 private:
  size_t index(int stage, int64_t microbatch) const {
    return static_cast<size_t>(stage * schedule_.microbatches + microbatch);
  }
  const PipelineSchedule& schedule_;
  PipelineCosts costs_;
  std::vector<double> forward_, input_;
};

// Plays the next action of a rank, or the next two if they run together; false if it must wait.
inline bool play_next(const PipelineActions& all, const PipelineCosts& costs, PipelineClock& clock,
                      std::vector<PipelineEvent>& done) {
  if (done.size() == all.size()) return false;
  const PipelineAction& next = all[done.size()];
  const bool pair = next.with_next && done.size() + 1 < all.size();
  const PipelineAction& last = pair ? all[done.size() + 1] : next;
  const double first = clock.ready(next), second = clock.ready(last);
  if (first < 0 || second < 0) return false;
  const double begin = std::max({done.empty() ? 0 : done.back().end, first, second});
  const double end = begin + (pair ? costs.of_pair() : seconds(costs, next.op));
  if (pair) {  // drawn one after the other; both results are there at the end
    const double f = costs.forward, b = costs.input + costs.weight;
    done.push_back({next, begin, begin + (end - begin) * (f + b > 0 ? f / (f + b) : 0.5)});
    clock.ended(last, end);
  }
  done.push_back({last, done.empty() || !pair ? begin : done.back().end, end});
  clock.ended(next, end);
  return true;
}

// Plays the lists until no rank can go on.
inline PipelineTimeline played(const PipelineSchedule& schedule, const PipelineCosts& costs,
                               PipelineClock& clock) {
  const size_t p = schedule.by_rank.size();
  PipelineTimeline timeline{schedule, std::vector<std::vector<PipelineEvent>>(p), 0};
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < p; ++r)
      while (play_next(schedule.by_rank[r], costs, clock, timeline.by_rank[r])) {
        timeline.length = std::max(timeline.length, timeline.by_rank[r].back().end);
        moved = true;
      }
  }
  return timeline;
}

}  // namespace detail

// When everything happens. Errors: a schedule that is not complete, or on which the ranks would
// wait forever.
inline PipelineTimeline simulate(const PipelineSchedule& schedule, const PipelineCosts& costs = {},
                                 Where where = Where::current()) {
  check_complete(schedule, where);
  detail::PipelineClock clock(schedule, costs);
  PipelineTimeline timeline = detail::played(schedule, costs, clock);
  std::string waiting;
  for (size_t r = 0; r < timeline.by_rank.size(); ++r) {
    if (timeline.by_rank[r].size() == schedule.by_rank[r].size()) continue;
    const PipelineAction& next = schedule.by_rank[r][timeline.by_rank[r].size()];
    PipelineAction missing = next;
    if (clock.ready(next, &missing) >= 0 && next.with_next)
      clock.ready(schedule.by_rank[r][timeline.by_rank[r].size() + 1], &missing);
    waiting += fmt::format("\n    rank {} is at {} and waits for {}", r, str(next), str(missing));
  }
  if (!waiting.empty()) fail(where, "the ranks wait for each other forever:{}", waiting);
  return timeline;
}

// The part of it that can run, for showing what is wrong: actions that do not exist are left out,
// and a rank ends where it would wait forever.
inline PipelineTimeline simulate_as_far(const PipelineSchedule& schedule,
                                        const PipelineCosts& costs = {}) {
  PipelineSchedule there = schedule;
  for (PipelineActions& actions : there.by_rank)
    std::erase_if(actions, [&](const PipelineAction& a) {
      return a.stage < 0 || a.stage >= schedule.stages || a.microbatch < 0 ||
             a.microbatch >= schedule.microbatches;
    });
  detail::PipelineClock clock(there, costs);
  return detail::played(there, costs, clock);
}

}  // namespace yotta
