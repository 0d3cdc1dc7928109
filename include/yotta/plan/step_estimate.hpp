// Step estimate: what a training step takes on a described cluster, put together from its parts.
//
//     a layout, as run_described takes it       model/described_step.hpp
//       └ F, I, W of a block, embedding, head   recorded_layers.hpp: each is run once
//          └ stages                             stage_walk.hpp: sums, and the most that is held
//             └ all actions of the pipeline     pipeline_walk.hpp: max of what they wait for
//                └ gradients                    gradient_walk.hpp: DDP, ZeRO-1, FSDP, HSDP
//
// run_described runs all layers of all stages under the clock and takes seconds or minutes; this
// runs each kind of layer once, adds up, and says the same within 3%. Nothing is fitted: every term
// is counted in a run, or is the cost formula of a collective or a schedule, which stands beside
// it.
//
//     seconds = computed + exposed (tp, cp, ep, data) + bubble        averages over the stages
//     bytes   = weights + gradients + optimizer + activations + buffers     of the fullest rank
//
// Contract: expect_layout(); links of a cluster with switches. Left out: messages between stages
// that take more than a fifth of a stage's time meet at ports in ways that are only roughly right;
// routers that choose some experts more often than others.
#pragma once

#include <string>

#include "yotta/plan/step_memory.hpp"

namespace yotta {

struct StepEstimate {
  double seconds = 0, bubble = 0;
  PartTime time;           // computed and exposed
  MemoryParts memory;      // of the fullest rank
  double model_flops = 0;  // of a rank: needed_flops of plan/mfu.hpp
  double mfu = 0;

  double exposed() const { return time.seconds() - time.computed; }
  double flops_a_second() const { return model_flops / seconds; }
};

// What layouts on one cluster share, kept between estimates. May be used by several threads.
struct EstimateCache {
  PipelineOrders orders;
  LayerRecords layers;
};

StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step, EstimateCache& cache);
StepEstimate estimate_step(const Cluster& cluster, const DescribedStep& step);
// Its seconds alone.
double step_seconds(const Cluster& cluster, const DescribedStep& step, EstimateCache& cache);
// What takes a part of that time: memory, and seconds that no step of this layout is below. Of a
// step that needs more than `capacity` bytes the seconds are 0.
struct StepBound {
  MemoryParts memory;
  double seconds = 0;
};
StepBound bound_step(const Cluster& cluster, const DescribedStep& step, EstimateCache& cache,
                     double capacity = no_limit);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/step_estimate.ipp"
#endif
