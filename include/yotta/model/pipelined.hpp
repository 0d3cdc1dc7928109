// A transformer on a pipeline: which entries of its stack a stage has, and one step of training.
//
//     L = 6 on 4 stages     embedding, 0, 1 │ 2, 3 │ 4 │ 5, head          blocks shared out evenly
//     and if ends count     embedding, 0 │ 1, 2 │ 3, 4 │ 5, head          entries shared out evenly
//
// The embedding goes with the first stage and the head with the last, so these two hold more than
// the others. Where both count as blocks, the ends have a block less, as Llama 3's have (Megatron's
// option account_for_embedding_in_pipeline_split). run_pipelined is what Trainer calls in place of
// its loop over microbatches.
#pragma once

#include <span>

#include "yotta/comm/communicator.hpp"
#include "yotta/model/microbatch.hpp"
#include "yotta/nn/loss.hpp"
#include "yotta/nn/transformer_config.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_kinds.hpp"
#include "yotta/parallel/stage_entries.hpp"

namespace yotta {

// For planning: seconds of a block's F, I and W, up to one factor, by its matmuls (Qi et al., table
// 1, for GPT): C the width, T the tokens of a sequence.
constexpr PipelineCosts planned_costs(int64_t C, int64_t T) {
  const double linear = 24 * static_cast<double>(C), attention = 4 * static_cast<double>(T);
  return {linear + attention, linear + 2 * attention, linear};
}

// What all stages of one step share.
struct PipelinedStep {
  PipelinePlan plan = {};
  int64_t width = 1;         // C of what flows between stages
  DType dtype = DType::f32;  // and its type
  LossOf loss = loss_of;     // of what the last stage gives
  Communicator tokens = {};  // that share the tokens: then (n, C) flows, not (B, T, C); or empty
};

// Forward and backward of all microbatches. `position` is that of the step, for dropout's draws;
// `tokens` are those of the whole batch. Only the last stage returns a loss.
PipelineReport run_pipelined(Pipeline& pipeline, int ranks, const PipelinedStep& made,
                             const BatchPosition& position, std::span<const Microbatch> batches,
                             int64_t tokens, Where where = Where::current());
// The same by a schedule that has been made before, in place of that of made.plan.
PipelineReport run_scheduled(Pipeline& pipeline, const PipelineSchedule& schedule,
                             const PipelinedStep& made, const BatchPosition& position,
                             std::span<const Microbatch> batches, int64_t tokens,
                             Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/impl/pipelined.ipp"
#endif
