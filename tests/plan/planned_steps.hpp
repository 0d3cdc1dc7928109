// What tests of plan/ share: a step of a small Llama on a mesh, and a layout of Llama 3 405B.
#pragma once

#include "yotta/model/described_step.hpp"
#include "yotta/plan/planner.hpp"

namespace yotta_test {

inline yotta::DescribedStep step_of(const yotta::TransformerConfig& config,
                                    const yotta::MeshShape& shape, const yotta::NdOptions& options,
                                    int64_t batch = 16) {
  yotta::DescribedStep step;
  step.config = config;
  step.shape = shape, step.options = options, step.batch = batch;
  return step;
}

inline yotta::DescribedStep small_step(const yotta::MeshShape& shape,
                                       const yotta::NdOptions& options = {}) {
  yotta::TransformerConfig config = yotta::llama_config(4, 512, 1536, 8, 4, 256, 1000);
  config.dtype = yotta::DType::bf16;
  return step_of(config, shape, options, 32);
}

// As somebody has chosen it: for tests of how others are told it.
struct Planned {
  yotta::PlanRequest request;
  yotta::Layout layout;
};
inline Planned planned() {
  Planned made;
  made.request.config = yotta::llama3_405b();
  made.request.config.dtype = yotta::DType::bf16;
  made.request.cluster = yotta::cluster_named("h100x1024");
  made.request.tokens = 1 << 22, made.request.sequence = 8192;
  made.layout.shape = {.tp = 8, .cp = 2, .pp = 8, .dp_replicate = 8};
  made.layout.sequence_parallel = true, made.layout.zero = 1, made.layout.microbatches = 32;
  made.layout.schedule = yotta::PipelineKind::interleaved, made.layout.chunks = 2;
  return made;
}

}  // namespace yotta_test
