// Layer sizes: what a rank works on in one microbatch, as a layout and a model give it.
//
//     B T of a microbatch     T cut by cp; tokens cut by tp too, where sequence parallelism shares
//     V of the vocabulary     cut by tp
//
// Letters: B sequences, T tokens of each on a rank of cp, N tokens of a microbatch there, n those
// of a rank of tp, C width, V vocabulary.
#pragma once

#include "yotta/core/chunks.hpp"
#include "yotta/model/described_step.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

namespace yotta {

struct LayerSizes {
  int64_t B = 1, T = 1, N = 1, n = 1, C = 1, V = 1;
  bool shares_tokens = false, is_gpt2 = false;
  DType sum_dtype = DType::f32;
  double width = 4, wide = 4;  // bytes of a number; of a sum
};

inline LayerSizes layer_sizes(const DescribedStep& step) {
  const TransformerConfig& c = step.config;
  const MeshShape& shape = step.shape;
  const NdOptions& o = step.options;
  LayerSizes z;
  z.B = chunk_count(chunk_count(step.batch, shape.data_ranks(), 0), o.microbatches, 0);
  z.T = o.tokens(c) / shape.cp, z.N = z.B * z.T;
  z.shares_tokens = o.shares_tokens() && shape.tp > 1;
  z.n = z.shares_tokens ? chunk_count(z.N, shape.tp, 0) : z.N;
  z.C = c.width, z.V = rows_held(c.vocabulary, shape.tp);
  z.is_gpt2 = c.has_bias();
  z.sum_dtype = computed(c.dtype);
  z.width = static_cast<double>(bytes_of(c.dtype));
  z.wide = static_cast<double>(bytes_of(z.sum_dtype));
  return z;
}

}  // namespace yotta
