// A step of a small Llama on a mesh, for tests of its parts.
#pragma once

#include "yotta/model/described_step.hpp"

namespace yotta_test {

inline yotta::DescribedStep small_step(const yotta::MeshShape& shape,
                                       const yotta::NdOptions& options = {}) {
  yotta::DescribedStep step;
  step.config = yotta::llama_config(4, 512, 1536, 8, 4, 256, 1000);
  step.config.dtype = yotta::DType::bf16;
  step.shape = shape, step.options = options, step.batch = 32;
  return step;
}

}  // namespace yotta_test
