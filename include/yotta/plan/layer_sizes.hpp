// Layer sizes: what a rank works on in one microbatch, as a layout and a model give it.
//
//     B T of a microbatch     T cut by cp; tokens cut by tp too, where sequence parallelism shares
//     H K F V of a layer      cut by tp
//     E of a mixture          cut by ep; F of each expert by tp
//
// How many rows an expert gets is known once the routers have chosen. Here all experts are chosen
// equally often, as by a run on meta (nn/expert_rows.hpp: uniform_expert).
//
// Letters: B sequences, T tokens of each on a rank of cp, N tokens of a microbatch there, n those
// of a rank of tp, C width, H heads, K key/value heads, d head size, F feed-forward width, V
// vocabulary, E experts, k of them for a token, m rows that leave a rank for experts, M rows that
// come to those that it holds.
#pragma once

#include "yotta/model/described_step.hpp"

namespace yotta {

// A mixture of experts on a rank; E is 0 where there is none.
struct MixtureSizes {
  int64_t E = 0, k = 0, held = 0;  // held: experts of this rank
  int64_t m = 0, M = 0;
  int64_t shared = 0;  // F of what every token runs through
  int ep = 1;
  bool has_sigmoid = false, sums_loads = false, has_capacity = false, has_bias = false;

  // Rows of several experts arrive from several ranks, and are put in order by expert.
  bool sorts() const { return ep > 1 && held > 1; }
};

struct LayerSizes {
  int64_t B = 1, T = 1, N = 1, n = 1, C = 1, H = 1, K = 1, d = 1, F = 1, V = 1;
  int tp = 1, cp = 1;
  bool shares_tokens = false, keeps_gathered = false, ulysses = false, is_gpt2 = false;
  Pieces pieces = Pieces::none;
  DType dtype = DType::f32, sum_dtype = DType::f32;
  double width = 4, wide = 4;  // bytes of a number; of a sum
  MixtureSizes mixture = {};
};
YOTTA_API LayerSizes layer_sizes(const DescribedStep& step);

}  // namespace yotta

#if YOTTA_BODIES_OF(planner)
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

LayerSizes layer_sizes(const DescribedStep& step) {
  LayerSizes z;
  z.tp = step.shape.tp, z.cp = step.shape.cp;
  detail::size_model(z, step.config);
  detail::size_tokens(z, step);
  z.mixture = detail::size_mixture(z, step.config.mixture, step.shape.ep);
  return z;
}

}  // namespace yotta
#endif  // YOTTA_BODIES
