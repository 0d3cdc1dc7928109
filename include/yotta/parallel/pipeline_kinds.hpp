// All kinds of pipeline schedules in one place: what each needs, and the schedule itself.
//                        chunks per rank ranks p    microbatches m     held at most, in stages
//     naive, GPipe, 1F1B       1         any        any                1, m, p
//     interleaved 1F1B         v         any        any                lesson 18
//     ZB-H1, ZB-H2             1         any        any                p, 2p - 1
//     interleaved zb           v         any        any                v p
//     ZB-V                     2         any        any                2p
//     DualPipe                 2         even       even, at least 2p  p + 1
//     DualPipeV                2         any        at least 2p        2p + 1
//     automatic                1         any        any                the limit that is given
//
// Contract: stages lie as placement_of says. DualPipe has p stages, twice; all others have p times
// their chunks.
#pragma once

#include "yotta/parallel/dual_pipe.hpp"
#include "yotta/parallel/interleaved_zero_bubble.hpp"
#include "yotta/parallel/pipeline_search.hpp"

namespace yotta {

// A kind, and the numbers that some of them take.
struct PipelinePlan {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int chunks = 1;            // per rank, of the interleaved ones
  int64_t hold = 0;          // automatic: microbatches that a rank may hold; 0: p
  PipelineCosts costs = {};  // automatic: what it plans with

  constexpr bool interleaves() const {
    return kind == PipelineKind::interleaved || kind == PipelineKind::interleaved_zb;
  }
  constexpr bool folds() const {  // two chunks per rank, and no other number
    return kind == PipelineKind::zb_v || kind == PipelineKind::dual_pipe ||
           kind == PipelineKind::dual_pipe_v;
  }
  constexpr bool counts_microbatches() const {  // it needs a certain number of them at least
    return kind == PipelineKind::dual_pipe || kind == PipelineKind::dual_pipe_v;
  }
  constexpr int chunks_of_rank() const { return folds() ? 2 : chunks; }
  constexpr Placement placement() const {
    if (kind == PipelineKind::dual_pipe) return Placement::both_ways;
    return folds() ? Placement::vee : Placement::loop;
  }
  constexpr int stages(int p) const {
    return placement() == Placement::both_ways ? p : p * chunks_of_rank();
  }
};

// Why p ranks cannot run m microbatches so; empty if they can.
inline std::string why_not(const PipelinePlan& plan, int p, int64_t m) {
  const char* const kind = name(plan.kind);
  if (p < 1 || m < 1 || plan.chunks < 1)
    return fmt::format(
        "a pipeline of {} ranks, {} microbatches, {} chunks per rank: each is at least 1", p, m,
        plan.chunks);
  if (plan.chunks > (plan.folds() ? 2 : 1) && !plan.interleaves())
    return fmt::format("{} has {} per rank, not {}", kind,
                       plan.folds() ? "two chunks" : "one stage", plan.chunks);
  if (plan.hold < 0)
    return fmt::format("a limit of {} microbatches held: at least 1, or 0 for p", plan.hold);
  if (plan.hold > 0 && plan.kind != PipelineKind::automatic)
    return fmt::format("{} holds what it needs; a limit is for the automatic schedule", kind);
  if (plan.kind == PipelineKind::dual_pipe) return why_no_dual_pipe(p, m);
  if (plan.kind == PipelineKind::dual_pipe_v) return why_no_dual_pipe_v(p, m);
  return "";
}

// Errors: why_not.
inline PipelineSchedule make_schedule(const PipelinePlan& plan, int p, int64_t m,
                                      Where where = Where::current()) {
  if (const std::string why = why_not(plan, p, m); !why.empty()) fail(where, "{}", why);
  const int64_t hold = plan.hold > 0 ? plan.hold : p;
  switch (plan.kind) {
    case PipelineKind::zb_h1: return zero_bubble_schedule(ZeroBubble::H1, p, m, where);
    case PipelineKind::zb_h2: return zero_bubble_schedule(ZeroBubble::H2, p, m, where);
    case PipelineKind::zb_v: return zb_v_schedule(p, m, where);
    case PipelineKind::interleaved_zb: return interleaved_zb_schedule(p, m, plan.chunks, where);
    case PipelineKind::dual_pipe: return dual_pipe_schedule(p, m, where);
    case PipelineKind::dual_pipe_v: return dual_pipe_v_schedule(p, m, where);
    case PipelineKind::automatic:
      return can_be_exact(p, m) ? best_schedule(p, m, hold, plan.costs, where)
                                : searched_schedule(p, m, hold, plan.costs, where);
    default: return make_schedule(plan.kind, p, m, plan.chunks, where);
  }
}

}  // namespace yotta
