// A step of a small Llama on a mesh, for tests of its parts.
#pragma once

#include "yotta/model/described_step.hpp"

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

}  // namespace yotta_test
