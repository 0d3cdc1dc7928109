// The bodies of model/pipelined.hpp.
#pragma once

#include "yotta/model/pipelined.hpp"

#include "yotta/core/chunks.hpp"

namespace yotta {

YOTTA_INLINE PipelineReport run_pipelined(Pipeline& pipeline, int ranks, const PipelinedStep& made,
                                          const BatchPosition& position,
                                          std::span<const Microbatch> batches, int64_t tokens,
                                          Where where) {
  PipelinePlan plan = made.plan;
  plan.costs = planned_costs(made.width, batches.front().inputs.dim(1));
  const PipelineSchedule schedule = make_schedule(plan, ranks, std::ssize(batches), where);
  return run_scheduled(pipeline, schedule, made, position, batches, tokens, where);
}

YOTTA_INLINE PipelineReport run_scheduled(Pipeline& pipeline, const PipelineSchedule& schedule,
                                          const PipelinedStep& made, const BatchPosition& position,
                                          std::span<const Microbatch> batches, int64_t tokens,
                                          Where where) {
  std::vector<PipelineMicrobatch> parts;
  for (const Microbatch& each : batches) {
    const Shape whole = {each.inputs.dim(0), each.inputs.dim(1), made.width};
    const Shape own = {
        chunk_count(each.inputs.numel(), axis_size(made.tokens), axis_rank(made.tokens)),
        made.width};
    parts.push_back({each.inputs, made.tokens.is_member() ? own : whole, made.dtype,
                     position_of(each, position)});
  }
  const double scale = 1.0 / static_cast<double>(tokens);
  return pipeline.run(
      schedule, parts,
      [&](size_t i, const Tensor& logits, Tensor& dlogits) {
        return made.loss(logits, batches[i].targets, scale, &dlogits);
      },
      where);
}

}  // namespace yotta
