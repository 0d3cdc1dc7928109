// Mixture walk: what a mixture of experts costs a rank, where a block has an MLP.
//
//     F    gather over tp, router, counts, rows to their ranks (beside the shared expert), experts,
//          rows back, weighted sum, sum over tp
//     I    gradients of rows to the experts (beside the shared expert), experts, gradients of
//          tokens back (beside the router), sum over tp
//     W    down, up, gate of each expert held, shared expert, router
//
// They go through the code of parallel/expert_parallel.hpp, nn/experts.hpp and nn/router.hpp line
// by line. Both exchanges are an all_to_all over ep of m rows, forward and again backward. All
// experts are chosen equally often: a run on real text waits for the fullest one besides.
// Contract: a capacity of 1 or more, which then drops nothing. Letters: as in layer_sizes.hpp.
#pragma once

#include "yotta/plan/mlp_walk.hpp"

namespace yotta {

class MixtureWalk : public MlpWalk {
 public:
  using MlpWalk::MlpWalk;

  void mixture_forward();
  void mixture_input();
  void mixture_weight();

 private:
  const MixtureSizes& mixture() const { return z_.mixture; }
  bool travels() const { return mixture().ep > 1; }
  double rows_leaving() const { return bytes(mixture().m * z_.C); }
  double rows_held() const { return bytes(mixture().M * z_.C); }
  double hidden() const { return bytes(mixture().M * z_.F); }  // of rows held
  double logits() const { return sums(z_.N * mixture().E); }
  double weights_of_tokens() const { return sums(mixture().m); }
  double choice() const { return 4.0 * static_cast<double>(mixture().m); }  // ids, i32

  void route();
  void scores();
  void router_input();
  void router_weight();
  void sort_rows();
  void experts_forward();
  void experts_input();
  void experts_weight();
  void grouped(const char* name, int64_t inputs, int64_t outputs);
  void rows_op(const char* name, int64_t flops, int64_t read, int64_t written);
  // Rows that have arrived: in the order of experts, through them, and in the order of ranks.
  template <class Experts>
  void run_experts(Experts experts);
  void end_mixture_input();
  // Rows travel while `meanwhile` computes.
  template <class Meanwhile>
  void exchange(Meanwhile meanwhile);
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/mixture_walk.ipp"
#endif
