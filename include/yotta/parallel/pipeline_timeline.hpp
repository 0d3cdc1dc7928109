// The timeline of a pipeline schedule: when each action would begin and end, if F, I and W took so
// long.
//
//     an action begins when its rank is free and what it needs is there
//         F of stage s     needs F of stage s - 1, and its message
//         I, B             need their own F, and I or B of stage s + 1, and its message
//         W                needs its own I
//
// A message delays the receiver and occupies nobody. This is arithmetic on the schedule alone;
// running it on ranks with a virtual clock (pipeline.hpp) gives the same times, and tests compare
// the two. The same arithmetic finds out whether a schedule can run at all: if no rank can go on,
// it names what each waits for.
#pragma once

#include "yotta/parallel/pipeline_schedule.hpp"

namespace yotta {

// Seconds of one stage and microbatch. B takes as long as I and W.
struct PipelineCosts {
  double forward = 1, input = 1, weight = 1, message = 0;
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
  YOTTA_API double busy() const;
};

// Throws unless every rank runs every microbatch through its stages exactly once, and nothing else.
YOTTA_API void check_complete(const PipelineSchedule& schedule, Where where = Where::current());

// When everything happens. Errors: a schedule that is not complete, or on which the ranks would
// wait forever.
YOTTA_API PipelineTimeline simulate(const PipelineSchedule& schedule,
                                    const PipelineCosts& costs = {},
                                    Where where = Where::current());

// The part of it that can run, for showing what is wrong: actions that do not exist are left out,
// and a rank ends where it would wait forever.
YOTTA_API PipelineTimeline simulate_as_far(const PipelineSchedule& schedule,
                                           const PipelineCosts& costs = {});

#if YOTTA_BODIES_OF(parallel_pipeline)

double PipelineTimeline::busy() const {
  double work = 0;
  for (const auto& events : by_rank)
    for (const PipelineEvent& each : events) work += each.end - each.begin;
  return length > 0 ? work / (length * static_cast<double>(by_rank.size())) : 1;
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
      const bool travels = schedule_.rank_of(stage) != schedule_.rank_of(a.stage);
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

}  // namespace detail

void check_complete(const PipelineSchedule& schedule, Where where) {
  const int64_t m = schedule.microbatches;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    std::vector<int> count(static_cast<size_t>(4 * schedule.stages * m));
    const auto of = [&](int stage, PipelineOp op, int64_t microbatch) -> int& {
      return count[static_cast<size_t>((static_cast<int>(op) * schedule.stages + stage) * m +
                                       microbatch)];
    };
    bool halves = false;  // backward is in two here
    for (const PipelineAction& a : schedule.by_rank[static_cast<size_t>(rank)]) {
      halves = halves || a.op == PipelineOp::I;
      if (a.microbatch < 0 || a.microbatch >= m)
        fail(where, "rank {}: {} does not exist: the microbatches are 0 to {}", rank, str(a),
             m - 1);
      if (a.stage < 0 || a.stage >= schedule.stages || schedule.rank_of(a.stage) != rank)
        fail(where, "rank {}: {} is not its: stage s is on rank s mod {}", rank, str(a),
             schedule.ranks);
      if (++of(a.stage, a.op, a.microbatch) > 1)
        fail(where, "rank {}: {} comes twice", rank, str(a));
    }
    for (int stage = rank; stage < schedule.stages; stage += schedule.ranks)
      for (int64_t i = 0; i < m; ++i) {
        const int forward = of(stage, PipelineOp::F, i), dgrad = of(stage, PipelineOp::I, i);
        const int backward = of(stage, PipelineOp::B, i) + dgrad;
        if (forward == 0) fail(where, "rank {}: {}F{} missing", rank, stage, i);
        if (backward == 0)
          fail(where, "rank {}: {} missing", rank,
               halves ? fmt::format("{0}I{1} and {0}W{1}", stage, i)
                      : fmt::format("{}B{}", stage, i));
        if (backward > 1 || of(stage, PipelineOp::W, i) != dgrad)
          fail(where, "rank {}: {}B{} must be one B, or one I and one W", rank, stage, i);
      }
  }
}

namespace detail {

// Plays the lists until no rank can go on.
inline PipelineTimeline played(const PipelineSchedule& schedule, const PipelineCosts& costs,
                               PipelineClock& clock) {
  const size_t p = schedule.by_rank.size();
  PipelineTimeline timeline{schedule, std::vector<std::vector<PipelineEvent>>(p), 0};
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < p; ++r) {
      std::vector<PipelineEvent>& done = timeline.by_rank[r];
      for (; done.size() < schedule.by_rank[r].size(); moved = true) {
        const PipelineAction& next = schedule.by_rank[r][done.size()];
        const double ready = clock.ready(next);
        if (ready < 0) break;
        const double begin = done.empty() ? ready : std::max(ready, done.back().end);
        done.push_back({next, begin, begin + seconds(costs, next.op)});
        clock.ended(next, done.back().end);
        timeline.length = std::max(timeline.length, done.back().end);
      }
    }
  }
  return timeline;
}

}  // namespace detail

PipelineTimeline simulate(const PipelineSchedule& schedule, const PipelineCosts& costs,
                          Where where) {
  check_complete(schedule, where);
  detail::PipelineClock clock(schedule, costs);
  PipelineTimeline timeline = detail::played(schedule, costs, clock);
  std::string waiting;
  for (size_t r = 0; r < timeline.by_rank.size(); ++r) {
    if (timeline.by_rank[r].size() == schedule.by_rank[r].size()) continue;
    const PipelineAction& next = schedule.by_rank[r][timeline.by_rank[r].size()];
    PipelineAction missing = next;
    clock.ready(next, &missing);
    waiting += fmt::format("\n    rank {} is at {} and waits for {}", r, str(next), str(missing));
  }
  if (!waiting.empty()) fail(where, "the ranks wait for each other forever:{}", waiting);
  return timeline;
}

PipelineTimeline simulate_as_far(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  PipelineSchedule there = schedule;
  for (PipelineActions& actions : there.by_rank)
    std::erase_if(actions, [&](const PipelineAction& a) {
      return a.stage < 0 || a.stage >= schedule.stages || a.microbatch < 0 ||
             a.microbatch >= schedule.microbatches;
    });
  detail::PipelineClock clock(there, costs);
  return detail::played(there, costs, clock);
}

#endif  // YOTTA_BODIES

}  // namespace yotta
