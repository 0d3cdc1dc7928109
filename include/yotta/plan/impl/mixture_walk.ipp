// The bodies of plan/mixture_walk.hpp.
#pragma once

#include "yotta/plan/mixture_walk.hpp"

#include "yotta/nn/activations.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta {

// ---- operations, as nn/expert_rows.hpp, nn/experts.hpp and nn/router.hpp charge them ----

YOTTA_INLINE void MixtureWalk::rows_op(const char* name, int64_t flops, int64_t read,
                                       int64_t written) {
  walk_.op(op_cost(name, z_.dtype, flops * z_.C, read * z_.C, written * z_.C));
}
YOTTA_INLINE void MixtureWalk::grouped(const char* name, int64_t inputs, int64_t outputs) {
  const int64_t M = mixture().M, matrices = mixture().held * inputs * outputs;
  walk_.op(op_cost(name, z_.dtype, 2 * M * inputs * outputs, M * inputs + matrices, M * outputs));
}
YOTTA_INLINE void MixtureWalk::scores() {
  const int64_t all = z_.N * mixture().E;
  walk_.op(mixture().has_sigmoid ? elementwise_cost("sigmoid", z_.sum_dtype, all, 4, 1, 1)
                                 : softmax_cost(z_.sum_dtype, all));
  walk_.hold(logits());
}
YOTTA_INLINE void MixtureWalk::sort_rows() {
  if (!mixture().sorts()) return;
  walk_.op(copy_cost("cat", z_.dtype, mixture().M * z_.C));
  walk_.hold(rows_held());
}

template <class Meanwhile>
void MixtureWalk::exchange(Meanwhile meanwhile) {
  const double before = walk_.time().seconds();
  meanwhile();
  if (mixture().ep == 1) return;
  const double here = walk_.time().seconds() - before;
  const double seconds = all_to_all_pairwise_seconds(mixture().ep, rows_leaving(), groups_.ep.link);
  walk_.compute(-here);  // which beside() adds
  walk_.beside(Exposed::ep, here, (mixture().ep - 1) * groups_.ep.link.alpha,
               seconds - (mixture().ep - 1) * groups_.ep.link.alpha);
}

// ---- the router ----

YOTTA_INLINE void MixtureWalk::route() {
  const int64_t N = z_.N, E = mixture().E, k = mixture().k;
  const double loads = 8 * static_cast<double>(E + 1), counts = 8 * static_cast<double>(E);
  walk_.op(linear_cost("linear", z_.dtype, N, E, z_.C));
  walk_.hold(logits());
  scores();
  walk_.op(op_cost("router", z_.sum_dtype, (k + 4) * N * E, N * E, 2 * N * k));
  walk_.hold(choice() + weights_of_tokens());
  walk_.drop(logits());  // the scores
  if (mixture().sums_loads) walk_.all_reduce(Exposed::ep, groups_.routed, loads);
  if (mixture().has_capacity)
    walk_.all_gather(Exposed::ep, groups_.routed, counts * groups_.routed.p);
  walk_.all_gather(Exposed::ep, groups_.ep, counts * groups_.ep.p);
  walk_.hold(choice());  // the same, sorted by expert
}
YOTTA_INLINE void MixtureWalk::router_input() {
  const int64_t N = z_.N, E = mixture().E, k = mixture().k;
  scores();
  walk_.op(op_cost("router_backward", z_.sum_dtype, (k + 4) * N * E, N * E, 2 * N * k));
  walk_.hold(logits());  // their gradient
  walk_.drop(logits());  // the scores
  walk_.op(linear_cost("linear_backward_input", z_.sum_dtype, N, z_.C, E));
  walk_.hold(whole());
  walk_.drop(logits());
}
YOTTA_INLINE void MixtureWalk::router_weight() {
  const int64_t E = mixture().E;
  walk_.op(linear_cost("linear_backward_weight", z_.dtype, E, z_.C, z_.N));
  ready(E * z_.C);
  if (mixture().has_bias) ready(E);
  walk_.drop(logits() + choice() + (mixture().shared > 0 && !z_.shares_tokens ? 0 : whole()));
}

// ---- the experts ----

YOTTA_INLINE void MixtureWalk::experts_forward() {
  const int matrices = z_.is_gpt2 ? 1 : 2;
  for (int matrix = 0; matrix < matrices; ++matrix) {
    grouped("grouped_linear", z_.C, z_.F);
    walk_.hold(hidden());
  }
  const int64_t numbers = mixture().M * z_.F;
  walk_.op(z_.is_gpt2 ? gelu_cost(z_.dtype, numbers) : swiglu_cost(z_.dtype, numbers));
  walk_.hold(hidden());
  grouped("grouped_linear", z_.F, z_.C);
  walk_.hold(rows_held());
}
YOTTA_INLINE void MixtureWalk::experts_input() {
  const int matrices = z_.is_gpt2 ? 1 : 2;
  const int64_t numbers = mixture().M * z_.F;
  grouped("grouped_linear_backward_input", z_.C, z_.F);
  walk_.hold(hidden());
  walk_.op(z_.is_gpt2 ? gelu_backward_cost(z_.dtype, numbers)
                      : swiglu_backward_cost(z_.dtype, numbers));
  walk_.hold(matrices * hidden());
  if (!z_.is_gpt2) walk_.drop(hidden());  // gate
  walk_.hold(rows_held());
  for (int matrix = 0; matrix < matrices; ++matrix)
    grouped("grouped_linear_backward_input", z_.F, z_.C);
  walk_.drop(2 * hidden());  // h, and the gradient of what down read
}
YOTTA_INLINE void MixtureWalk::experts_weight() {
  const auto of_each = [&](int64_t inputs, int64_t outputs) {
    grouped("grouped_linear_backward_weight", inputs, outputs);
    for (int64_t expert = 0; expert < mixture().held; ++expert) ready(z_.C * z_.F, true);
  };
  of_each(z_.F, z_.C);
  walk_.drop(rows_held() + hidden());
  for (int matrix = 0; matrix < (z_.is_gpt2 ? 1 : 2); ++matrix) {
    of_each(z_.C, z_.F);
    walk_.drop(hidden());
  }
  walk_.drop(rows_held());
}

// ---- the layer ----

template <class Experts>
void MixtureWalk::run_experts(Experts experts) {
  sort_rows();
  experts();
  if (mixture().sorts()) walk_.drop(rows_held());  // as they had come
  sort_rows();
  if (travels()) walk_.hold(rows_leaving());
}

YOTTA_INLINE void MixtureWalk::mixture_forward() {
  const int64_t m = mixture().m;
  gather();
  route();
  rows_op("gather_rows", 0, m, m);
  walk_.hold(rows_leaving());
  if (travels()) walk_.hold(rows_held());
  exchange([&] {
    if (mixture().shared > 0) mlp_forward(mixture().shared, false);
  });
  if (travels()) walk_.drop(rows_leaving());
  run_experts([&] { experts_forward(); });
  exchange([] {});
  if (mixture().sorts()) walk_.drop(rows_held());
  rows_op("combine_rows", 2 * m, m, z_.N);
  walk_.hold(whole());
  if (z_.tp > 1) reduce();
  if (mixture().shared > 0) add(), walk_.drop(stream());
  if (travels()) walk_.drop(rows_held());  // what experts have made; here are the results
  if (z_.shares_tokens && mixture().shared == 0) walk_.drop(stream());  // what norm made
}

YOTTA_INLINE void MixtureWalk::mixture_input() {
  const int64_t m = mixture().m;
  gather();
  rows_op("combine_rows_backward", 3 * m, 2 * m, m);
  walk_.hold(rows_leaving() + weights_of_tokens());
  walk_.drop(rows_leaving() + weights_of_tokens());  // results, and what they were weighed with
  if (travels()) walk_.hold(rows_held());
  exchange([&] {
    if (mixture().shared > 0) mlp_input(mixture().shared);
  });
  if (z_.tp > 1) walk_.all_reduce(Exposed::tp, groups_.tp, weights_of_tokens());
  run_experts([&] { experts_input(); });
  exchange([&] { router_input(); });
  if (mixture().sorts()) walk_.drop(rows_held());
  rows_op("gather_rows_backward", m, m, z_.N);
  walk_.hold(whole());
  if (travels()) walk_.drop(rows_leaving());
  walk_.op(add_cost(z_.dtype, z_.N * z_.C));
  end_mixture_input();
}

YOTTA_INLINE void MixtureWalk::end_mixture_input() {
  const bool has_shared = mixture().shared > 0;
  if (z_.tp > 1) reduce();
  if (has_shared) add(), walk_.drop(stream());
  if (travels()) walk_.drop(rows_leaving());  // gradients of rows, which were sent
  walk_.drop(weights_of_tokens() + whole() + rows_held() + choice());
  if (z_.shares_tokens) walk_.drop(whole());
  if (!has_shared) walk_.drop(stream());  // nobody keeps the gradient that flowed in
}

YOTTA_INLINE void MixtureWalk::mixture_weight() {
  experts_weight();
  if (mixture().shared > 0) mlp_weight(mixture().shared, false);
  router_weight();
}

}  // namespace yotta
