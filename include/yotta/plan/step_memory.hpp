// Step memory: what the fullest rank of a layout holds at the fullest moment of a step.
//
//     weights, gradients, optimizer     from step to step: by N, the types, and who shares what out
//     activations                       what microbatches in flight have saved, and what the action
//                                       that runs borrows: the largest sum over all actions
//     buffers                           of collectives, where they outlast the activations
//
// Goes through the actions of a rank in their order, and leaves out ranks that a bound says cannot
// be the fullest. FSDP's units, sums that are under way and
// gradients that are made in the first backward pass are in the actions' own peaks
// (stage_walk.hpp). Letters: N parameters of a rank.
#pragma once

#include "yotta/plan/pipeline_walk.hpp"
#include "yotta/plan/step_stages.hpp"

namespace yotta {

struct MemoryParts {
  double weights = 0, gradients = 0, optimizer = 0;  // held from step to step
  double activations = 0, buffers = 0;               // at the fullest moment of a step

  double states() const { return weights + gradients + optimizer; }
  double bytes() const { return states() + activations + buffers; }
};

MemoryParts step_memory(const StepStages& stages, PipelineOrders& orders);
// Of one rank of the pipeline.
MemoryParts rank_memory(const StepStages& stages, PipelineOrders& orders, int rank);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/step_memory.ipp"
#endif
