// The bodies of comm/layouts/torus_shape.hpp.
#pragma once

#include "yotta/comm/layouts/torus_shape.hpp"

namespace yotta {

YOTTA_INLINE TorusCuts TorusShape::cuts(int rank, int part, Data whole) const {
  TorusCuts made = {whole};
  for (int phase = 0; phase < axis_count(); ++phase) {
    const int r = ring(part, phase);
    made.push_back(made.back().chunk(place(r, rank), length(r)));
  }
  return made;
}

YOTTA_INLINE std::vector<Tensor> TorusShape::buffers(ConstData like) const {
  const MemoryScope kind(MemoryKind::buffers);
  const DeviceScope device(like.device);
  std::vector<Tensor> made;
  for (int part = 0; part < rings(); ++part)
    made.push_back(Tensor::zeros({ranks() * piece(like.count)}, like.dtype));
  return made;
}

YOTTA_INLINE void TorusShape::expect_chunk(int rank, ConstData chunk, ConstData all,
                                           const char* name, Where where) const {
  const int64_t expected = chunk_count(all.count, ranks(), rank);
  if (chunk.count != expected || chunk.dtype != all.dtype || chunk.device != all.device)
    fail(where, "{}, this rank's chunk, has {} {} on {}; expected {} {} on {}", name, chunk.count,
         yotta::name(chunk.dtype), yotta::name(chunk.device), expected, yotta::name(all.dtype),
         yotta::name(all.device));
}

}  // namespace yotta
