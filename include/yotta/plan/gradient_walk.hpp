// Gradient walk: what the data axes add to a step: DDP's buckets, ZeRO's, FSDP's units.
//
//     DDP      last microbatch   │ W7 │ W6 │ W5 │ ... │ W0 │          buckets leave as they fill
//              network                 │ 7 6 ═══ │ 5 4 ═══ │ ... ═══│   what is left shows
//     ZeRO-1   after backward    reduce_scatter bucket by bucket; AdamW on a p-th; all_gather
//     ZeRO-2   each microbatch   a full bucket's reduce_scatter is under way while the next fills
//              after backward    AdamW on a p-th; all_gather
//     FSDP     each microbatch   unit i + 1 is gathered while unit i computes; backward unit i - 1,
//                                and the sum of unit i + 1 is under way
//     HSDP     both              the last sums of shards leave for the other groups
//
// The rules by which buckets are cut and units are gathered are those of parallel/ddp.hpp,
// parallel/zero.hpp and parallel/fsdp.hpp, gone through with seconds in place of numbers. For equal
// units the results are those of parallel/fsdp_cost.hpp.
// A layer's own messages may use the port that gradients or weights use at that time. Then each
// gets half of it (machine/shared_ports.hpp): the layer takes longer, and so do they.
// Letters: p ranks of a group, u a unit.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "yotta/parallel/pipeline_schedule.hpp"
#include "yotta/plan/gradient_lanes.hpp"
#include "yotta/plan/plan_buckets.hpp"

namespace yotta {

// ---- a rank's step ----

// What a rank's DDP, ZeRO-2 and FSDP do while its pipeline runs.
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
  bool has_ddp() const { return !axes_.scatters && axes_.data.p > 1; }
  double start_first(const PlanUnit& unit, double now);
  double wait(double now, double until);
  double forward(const Units& units, double now);
  double backward(const Units& units, PipelineOp op, double now);
  double weights(const PlanUnit& unit, double now);
  double input(const PlanUnit& unit, double now);
  double in_pieces(const PlanUnit& unit, const PartTime& part, double now);
  double finish_reduce(int chunk, double now);
  double finish_reduces(double now);
  double ready(int chunk, std::span<const WeightReady> weights, double now);

  const DataAxes& axes_;
  std::vector<Units> chunks_;
  GradientLanes lanes_;
  // Seconds of a bucket's sum; of these at its group's port, and at the port into the node.
  struct BucketSum {
    double numbers = 0, seconds = 0, work = 0, inside = 0;
  };
  // Buckets of weights that one group sums: DDP's of all chunks, ZeRO-2's of one.
  struct Buckets {
    PlanGroup group;
    GradientLane lane;
    std::vector<size_t> chunks;
    std::vector<double> ends = {};             // numbers up to each bucket's end
    std::vector<BucketSum> sums = {};          // of each
    std::vector<double> ready = {}, all = {};  // numbers of each chunk
    size_t left = 0;                           // that have left
    bool arrives = false;                      // ZeRO-2: the last of these is not added yet

    double numbers(size_t i) const { return ends[i] - (i == 0 ? 0 : ends[i - 1]); }
  };
  BucketSum sum_of(const Buckets& buckets, double numbers) const;
  void add_buckets(const PlanGroup& group, GradientLane lane, std::vector<size_t> chunks);
  double leave(Buckets& buckets, double now);
  double start(Buckets& buckets, double now);
  double settle(Buckets& buckets, double now);
  double flush(double now);
  bool belongs(const WeightReady& weight, const Buckets& to) const {
    return (axes_.experts_apart && weight.expert) == (to.lane == GradientLane::experts);
  }
  void gather(const PlanUnit& unit, double now) {
    lanes_.start(GradientLane::shards, now, unit.gather, unit.gather_work, unit.gather_inside);
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
