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

#include <deque>
#include <vector>

#include "yotta/parallel/pipeline_kinds.hpp"
#include "yotta/plan/gradient_walk.hpp"
#include "yotta/plan/recorded_layers.hpp"
#include "yotta/plan/stage_walk.hpp"

namespace yotta {

// Why a step that could run cannot be estimated; empty if it can.
std::string why_no_estimate(const DescribedStep& step);

// Parameters of a rank.
struct HeldNumbers {
  double all = 0, stepped = 0;  // those of which it has optimizer state
  double experts = 0;           // those that are summed apart
};

class StepStages {
 public:
  // Errors: why_no_estimate.
  StepStages(const Cluster& cluster, const DescribedStep& step, LayerRecords& records,
             Where where = Where::current());
  StepStages(const StepStages&) = delete;

  const DescribedStep& step() const { return step_; }
  const Chip& chip() const { return kernels_.chip; }
  const LayerSizes& sizes() const { return z_; }
  const PlanGroups& groups() const { return groups_; }
  const Kernels& kernels() const { return kernels_; }
  const PipelinePlan& plan() const { return plan_; }
  const DataAxes& axes() const { return axes_; }

  int ranks() const { return step_.shape.pp; }  // of the pipeline
  int stages() const { return plan_.stages(ranks()); }
  int chunks() const { return plan_.chunks_of_rank(); }
  int64_t microbatches() const { return microbatches_; }
  bool is_sharded() const { return groups_.shards.p > 1; }
  bool has_zero() const { return step_.options.zero.stage > 0; }
  bool scatters() const { return step_.options.zero.stage == 2; }  // in every microbatch
  bool has_ddp() const { return !has_zero() && groups_.data.p > 1; }
  // Whether gradients are made in the first W; otherwise they exist before the first step.
  bool makes_gradients() const { return !has_zero() && !has_ddp() && !step_.gradients_ahead; }
  bool has_tied_ends() const { return step_.config.tied && stages() > 1; }
  bool has_root() const { return step_.config.tied && stages() == 1 && is_sharded(); }
  bool sums_experts_apart() const { return step_.config.mixture.experts > 0 && step_.shape.ep > 1; }
  // Bytes that flow between stages.
  double between() const { return static_cast<double>(z_.n * z_.C) * z_.width; }

  // Stages in the middle are alike: these are the same ones.
  const StageFigures& stage(int number) const { return *stages_[static_cast<size_t>(number)]; }
  const StageFigures& stage_of(int rank, int chunk) const {
    return stage(stage_on(plan_.placement(), rank, chunk, ranks()));
  }
  // Whether two ranks hold equal stages.
  bool alike(int a, int b) const;
  const PlanUnit& unit_of(const LayerFigures* layer) const;
  std::vector<const PlanUnit*> units_of(int rank, int chunk) const;
  // The parameters of a rank, or its shards of them, in the order of backward.
  std::vector<WeightReady> parameters_of(int rank) const;
  std::vector<WeightReady> parameters_of(int rank, int chunk) const;
  HeldNumbers held_by(int rank) const;
  int64_t largest_shard(int rank) const;  // of a parameter
  // ZeRO's, chunk by chunk. A table that two stages hold has a bucket of its own.
  std::vector<PlanBucket> zero_buckets(int rank) const;
  const PlanGroup& group_of(const PlanBucket& bucket) const {
    return bucket.experts ? groups_.experts : groups_.data;
  }
  StageExtras extras() const;
  // Numbers of a layer's norms and positions, and of its matrices in front of latents, which see a
  // rank's own tokens.
  int64_t own_token_numbers(const LayerFigures* layer) const;

 private:
  LayerFigures collected(LayerFigures layer) const;
  void make_blocks(LayerRecords& records, LayerQuestion question, LayerFigures& block,
                   LayerFigures& recomputed) const;
  void make_layers(LayerRecords& records);
  std::vector<LayerRun> runs_of(int stage) const;
  void make_stages();
  DataAxes data_axes() const;

  DescribedStep step_;
  LayerSizes z_;
  PlanGroups groups_;
  Kernels kernels_;
  PipelinePlan plan_;
  int64_t microbatches_;
  // Blocks; of a mixture the first ones, which have no experts.
  LayerFigures block_, recomputed_, dense_, dense_recomputed_, embedding_, head_;
  std::vector<PlanUnit> units_;
  DataAxes axes_;
  std::deque<StageFigures> figures_;         // of stages that differ
  std::vector<const StageFigures*> stages_;  // by number
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/step_stages.ipp"
#endif
