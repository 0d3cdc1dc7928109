// The bodies of model/microbatch.hpp.
#pragma once

#include "yotta/model/microbatch.hpp"

#include "yotta/core/chunks.hpp"
#include "yotta/nn/cross_entropy.hpp"

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

YOTTA_INLINE Microbatch packed(Microbatch batch, Packing packing) {
  batch.packing = std::make_shared<const Packing>(std::move(packing));
  batch.positions.packing = batch.packing.get();
  return batch;
}

YOTTA_INLINE std::vector<int32_t> documents_of(const Microbatch& batch,
                                               const std::vector<int32_t>& documents,
                                               int64_t first_sequence) {
  const int64_t numbers = batch.inputs.numel();
  if (documents.empty()) return std::vector<int32_t>(static_cast<size_t>(numbers));
  const auto begin =
      documents.begin() + (batch.first_sequence - first_sequence) * batch.inputs.dim(1);
  return {begin, begin + numbers};
}

YOTTA_INLINE int64_t counted_targets(const Tensor& targets) {
  if (targets.device() == Device::meta) return targets.numel();
  int64_t counted = 0;
  for_each_id(targets.reshape({targets.numel()}), Where::current(),
              [&](int64_t, int32_t id) { counted += id != no_target; });
  return counted;
}

YOTTA_INLINE BatchPosition position_of(const Microbatch& batch, BatchPosition step) {
  step.first_sequence = batch.first_sequence;
  step.positions = batch.positions;
  return step;
}

}  // namespace yotta
