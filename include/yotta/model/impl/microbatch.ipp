// The bodies of model/microbatch.hpp.
#pragma once

#include "yotta/model/microbatch.hpp"

#include "yotta/core/chunks.hpp"

namespace yotta {

YOTTA_INLINE std::vector<Microbatch> microbatches(const Tensor& inputs, const Tensor& targets,
                                                  int64_t count, int64_t first_sequence,
                                                  const Positions& positions) {
  std::vector<Microbatch> parts;
  const int64_t B = inputs.dim(0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = chunk_begin(B, count, i), end = chunk_begin(B, count, i + 1);
    if (begin < end)
      parts.push_back(
          {inputs.rows(begin, end), targets.rows(begin, end), first_sequence + begin, positions});
  }
  return parts;
}

YOTTA_INLINE BatchPosition position_of(const Microbatch& batch, BatchPosition step) {
  step.first_sequence = batch.first_sequence;
  step.positions = batch.positions;
  return step;
}

}  // namespace yotta
