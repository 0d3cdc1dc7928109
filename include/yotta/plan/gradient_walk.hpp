// Gradient walk: what the data axes add to a step: DDP's buckets, ZeRO's, FSDP's units.
//
//     DDP      last microbatch   │ W7 │ W6 │ W5 │ ... │ W0 │          buckets leave as they fill
//              network                 │ 7 6 ═══ │ 5 4 ═══ │ ... ═══│   what is left shows
//     ZeRO-1   after backward    reduce_scatter bucket by bucket; AdamW on a p-th; all_gather
//     FSDP     each microbatch   unit i + 1 is gathered while unit i computes; backward unit i - 1,
//                                and the sum of unit i + 1 is under way
//     HSDP     both              the last sums of shards leave for the other groups
//
// The rules by which buckets are cut and units are gathered are those of parallel/ddp.hpp and
// parallel/fsdp.hpp, gone through with seconds in place of numbers. For equal units the results are
// those of parallel/fsdp_cost.hpp.
// A layer's own messages may use the port that gradients or weights use at that time. Then each
// gets half of it (machine/shared_ports.hpp): the layer takes longer, and so do they.
// Letters: p ranks of a group, u a unit.
#pragma once

#include <utility>
#include <vector>

#include "yotta/parallel/pipeline_schedule.hpp"
#include "yotta/plan/gradient_lanes.hpp"
#include "yotta/plan/plan_buckets.hpp"

namespace yotta {

// ---- a rank's step ----

// What a rank's DDP and FSDP do while its pipeline runs.
class GradientWalk {
 public:
  // Units of each chunk, in the order of the stack. They outlive the walk, as the axes do.
  GradientWalk(const DataAxes& axes, std::vector<std::vector<const PlanUnit*>> chunks);

  // Runs an action from `begin` on, and returns when it ends. `is_last`: the chunk's last backward.
  double run(int chunk, PipelineOp op, double begin, bool is_last);
  // After the last action: waits for what is under way.
  double finish(double now);

  // What came on top of the layers' own time.
  const PartTime& extra() const { return extra_; }

 private:
  using Units = std::vector<const PlanUnit*>;
  bool has_fsdp() const { return axes_.shards.p > 1; }
  bool has_ddp() const { return axes_.data.p > 1; }
  double start_first(const PlanUnit& unit, double now);
  double wait(double now, double until);
  double forward(const Units& units, double now);
  double backward(const Units& units, PipelineOp op, double now);
  double weights(const PlanUnit& unit, double now);
  double finish_reduce(int chunk, double now);
  double finish_reduces(double now);
  void ready(int chunk, const std::vector<WeightReady>& weights, double now);

  const DataAxes& axes_;
  std::vector<Units> chunks_;
  GradientLanes lanes_;
  // DDP's buckets of weights that one group sums.
  struct Buckets {
    PlanGroup group;
    GradientLane lane;
    std::vector<double> ends = {};             // numbers up to each bucket's end
    std::vector<double> ready = {}, all = {};  // numbers of each chunk
    size_t left = 0;                           // that have left
  };
  void add_buckets(const PlanGroup& group, GradientLane lane);
  void leave(Buckets& buckets, double now);
  bool belongs(const WeightReady& weight, const Buckets& to) const {
    return (axes_.experts_apart && weight.expert) == (to.lane == GradientLane::experts);
  }
  void gather(const PlanUnit& unit, double now) {
    lanes_.start(GradientLane::shards, now, unit.gather, unit.gather_work);
  }
  double gathered() const { return lanes_.free(GradientLane::shards); }

  struct Reduction {
    const PlanUnit* unit = nullptr;
    double end = 0;
    bool is_last = false;
  };
  std::vector<Reduction> reducing_;        // of each chunk
  int chunk_ = 0;                          // that runs
  bool is_last_ = false, syncing_ = true;  // DDP counts gradients as ready
  std::vector<Buckets> buckets_;           // of all weights but experts; of experts
  PartTime extra_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/gradient_walk.ipp"
#endif
