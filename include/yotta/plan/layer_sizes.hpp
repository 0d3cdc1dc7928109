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
LayerSizes layer_sizes(const DescribedStep& step);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/layer_sizes.ipp"
#endif
