// The bodies of plan/layer_sizes.hpp.
#pragma once

#include "yotta/plan/layer_sizes.hpp"

#include "yotta/core/chunks.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

namespace yotta {

namespace detail {

inline void size_model(LayerSizes& z, const TransformerConfig& c) {
  z.C = c.width, z.d = c.head_size();
  z.H = c.heads / z.tp, z.K = c.kv_heads / z.tp, z.F = c.feed_forward / z.tp;
  z.V = rows_held(c.vocabulary, z.tp);
  z.is_gpt2 = c.has_bias();
  z.dtype = c.dtype, z.sum_dtype = computed(c.dtype);
  z.width = static_cast<double>(bytes_of(z.dtype));
  z.wide = static_cast<double>(bytes_of(z.sum_dtype));
}

inline void size_tokens(LayerSizes& z, const DescribedStep& step) {
  const NdOptions& o = step.options;
  const int64_t own = chunk_count(step.batch, step.shape.data_ranks(), 0);
  z.B = chunk_count(own, o.microbatches, 0);
  z.T = o.tokens(step.config) / z.cp;
  z.N = z.B * z.T;
  z.shares_tokens = o.shares_tokens() && z.tp > 1;
  z.n = z.shares_tokens ? chunk_count(z.N, z.tp, 0) : z.N;
  z.keeps_gathered = o.keep_gathered;
  z.ulysses = o.context == ContextParallel::ulysses;
  z.pieces = z.shares_tokens ? o.pieces : Pieces::none;
}

// Assignment a goes to expert a modulo E, on every rank.
inline MixtureSizes size_mixture(const LayerSizes& z, const MixtureConfig& mixture, int ep) {
  MixtureSizes x;
  if (mixture.experts == 0) return x;
  x.E = mixture.experts, x.k = mixture.top_k, x.ep = ep;
  x.held = chunk_count(x.E, ep, 0);
  x.m = z.N * x.k;
  for (int64_t e = 0; e < x.held; ++e) x.M += ep * chunk_count(x.m, x.E, e);
  x.shared = mixture.shared * z.F;
  x.has_sigmoid = mixture.score == RouterScore::sigmoid;
  x.sums_loads = mixture.balance_loss > 0 || mixture.z_loss > 0;
  x.has_capacity = mixture.capacity > 0;
  x.has_bias = mixture.bias_rate > 0;
  return x;
}

}  // namespace detail

YOTTA_INLINE LayerSizes layer_sizes(const DescribedStep& step) {
  LayerSizes z;
  z.tp = step.shape.tp, z.cp = step.shape.cp;
  detail::size_model(z, step.config);
  detail::size_tokens(z, step);
  z.mixture = detail::size_mixture(z, step.config.mixture, step.shape.ep);
  return z;
}

}  // namespace yotta
