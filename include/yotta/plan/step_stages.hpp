// Step stages: the stages of a layout's pipeline, with all that their ranks pay in one microbatch.
//
//     config, shape, options     as run_described takes them        model/described_step.hpp
//       └ groups                 who talks over which link          plan_groups.hpp
//       └ layers                 a block, kept or recomputed; the embedding; the head
//          └ stages              runs of them                       stage_walk.hpp
//          └ units               FSDP's, or whole layers            plan_buckets.hpp
//
// From here step_memory.hpp finds bytes and step_estimate.hpp seconds.
// Contract: expect_layout(). Letters: none.
#pragma once

#include <vector>

#include "yotta/parallel/pipeline_kinds.hpp"
#include "yotta/plan/gradient_walk.hpp"
#include "yotta/plan/stage_walk.hpp"

namespace yotta {

// Why a step that could run cannot be estimated; empty if it can.
std::string why_no_estimate(const DescribedStep& step);

class StepStages {
 public:
  // Errors: why_no_estimate.
  StepStages(const Cluster& cluster, const DescribedStep& step, Where where = Where::current());
  StepStages(const StepStages&) = delete;

  const DescribedStep& step() const { return step_; }
  const Chip& chip() const { return chip_; }
  const LayerSizes& sizes() const { return z_; }
  const PlanGroups& groups() const { return groups_; }
  const StepWalk& walk() const { return walk_; }
  const PipelinePlan& plan() const { return plan_; }
  const DataAxes& axes() const { return axes_; }

  int ranks() const { return step_.shape.pp; }  // of the pipeline
  int stages() const { return plan_.stages(ranks()); }
  int chunks() const { return plan_.chunks_of_rank(); }
  int64_t microbatches() const { return microbatches_; }
  bool is_sharded() const { return groups_.shards.p > 1; }
  bool has_zero() const { return step_.options.zero.stage > 0; }
  bool has_ddp() const { return !has_zero() && groups_.data.p > 1; }
  // Whether gradients are made in the first W; otherwise they exist before the first step.
  bool makes_gradients() const { return !has_zero() && !has_ddp(); }
  bool has_tied_ends() const { return step_.config.tied && stages() > 1; }
  bool has_root() const { return step_.config.tied && stages() == 1 && is_sharded(); }
  bool sums_experts_apart() const { return z_.mixture.ep > 1; }
  // Bytes that flow between stages.
  double between() const { return static_cast<double>(z_.n * z_.C) * z_.width; }

  const StageFigures& stage(int number) const { return stages_[static_cast<size_t>(number)]; }
  const StageFigures& stage_of(int rank, int chunk) const {
    return stage(stage_on(plan_.placement(), rank, chunk, ranks()));
  }
  const PlanUnit& unit_of(const LayerFigures* layer) const;
  std::vector<const PlanUnit*> units_of(int rank, int chunk) const;
  // The parameters of a rank, or its shards of them, in the order of backward.
  std::vector<WeightReady> parameters_of(int rank) const;
  std::vector<WeightReady> parameters_of(int rank, int chunk) const;
  // ZeRO's, chunk by chunk. A table that two stages hold has a bucket of its own.
  std::vector<PlanBucket> zero_buckets(int rank) const;
  const PlanGroup& group_of(const PlanBucket& bucket) const {
    return bucket.experts ? groups_.experts : groups_.data;
  }
  StageExtras extras() const;
  // Numbers of a layer's norms and positions, which see a rank's own tokens.
  int64_t own_token_numbers(const LayerFigures* layer) const;

 private:
  LayerFigures collected(LayerFigures layer) const;
  void make_layers();
  std::vector<LayerRun> runs_of(int stage) const;
  void make_stages();
  DataAxes data_axes() const;

  DescribedStep step_;
  Chip chip_;
  LayerSizes z_;
  PlanGroups groups_;
  StepWalk walk_;
  PipelinePlan plan_;
  int64_t microbatches_;
  LayerFigures block_, recomputed_, embedding_, head_;
  std::vector<PlanUnit> units_;
  DataAxes axes_;
  std::vector<StageFigures> stages_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/step_stages.ipp"
#endif
