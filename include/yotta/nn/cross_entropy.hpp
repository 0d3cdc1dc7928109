// Cross-entropy: how small a probability the model gave to the token that really came next.
//
//     logits of one token (V)   [ 1.2  0.3  4.0  -2.1 ... ]    lse = log(sum of e^logit)
//     the token that came next            ^ next               loss = lse - logit_next
//
//     loss of the batch = scale * sum over tokens,   scale = 1 / (tokens in the *global* batch)
//
// With that scale the losses and the gradients of ranks are *summed*, not averaged, so ranks may
// hold different numbers of tokens and the result is still exact.
//
// Backward: dlse/dlogit_j = softmax_j, so dlogit_j = scale (softmax_j - 1[j = next]). The forward
// pass stores no softmax, only lse; and the gradient can take the logits' own place, which saves
// 4 GB in f32 for 8,192 tokens and a vocabulary of 128,256.
//
// A token with target no_target has no loss and no gradient: nothing is known to come next.
// Logits may be bf16: lse, the losses and the softmax are f32, and a gradient is rounded once.
// lse is computed as m + log(sum of e^(logit - m)), m the largest logit, so that nothing overflows.
// Cost: forward 4 FLOPs per logit, one read; backward 4 FLOPs, a read and a write.
// Letters: N tokens of this rank, V vocabulary.
#pragma once

#include <cmath>

#include "yotta/nn/softmax.hpp"

namespace yotta {

inline constexpr int32_t no_target = -1;

struct CrossEntropy {
  double loss = 0;     // scale * sum of losses; 0 on meta
  Tensor losses;       // (N), unscaled
  Tensor log_sum_exp;  // (N), kept for the backward pass
};

constexpr OpCost cross_entropy_cost(DType dtype, int64_t N, int64_t V) {
  return op_cost("cross_entropy", dtype, 4 * N * V, N * V, 2 * N);
}
constexpr OpCost cross_entropy_backward_cost(DType dtype, int64_t N, int64_t V) {
  return op_cost("cross_entropy_backward", dtype, 4 * N * V, N * V + N, N * V);
}

// The loss of logits (N, V) against targets i32 (N), each a token or no_target.
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& targets, double scale,
                           Where where = Where::current());

// The same on Device::cuda, where the loss stays: it is added to the number there, and the host
// does not wait for it. CrossEntropy::loss is 0.
CrossEntropy cross_entropy_onto(double* loss, const Tensor& logits, const Tensor& targets,
                                double scale, Where where = Where::current());

// Writes dlogits (N, V) over the logits themselves.
void cross_entropy_backward_in_place(Tensor& logits, const Tensor& targets,
                                     const Tensor& log_sum_exp, double scale,
                                     Where where = Where::current());

// dlogits (N, V) as a new tensor; the logits are left as they are.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& targets,
                              const Tensor& log_sum_exp, double scale,
                              Where where = Where::current());

namespace detail {

// Throws unless targets are i32 (N), each in [0, V) or no_target.
void expect_targets(const char* operation, const Tensor& targets, int64_t V, Where where);

// log(sum of e^x) of one row, or of a shard of it.
template <class Number, class Team = LaneTeam<Computed<Number>>>
YOTTA_BODY Computed<Number> log_sum_exp(const Number* x, int64_t n, Team team = {}) {
  using Real = Computed<Number>;
  const Real most = team.largest(x, n);
  const Real sum =
      team.sum(n, [&](int64_t i, auto count) { return exponential(load(x + i, count) - most); });
  return most + std::log(sum);
}

// x = scale softmax(x) of one row, or of a shard of it, whose log-sum-exp is known.
template <class Number, class Real = Computed<Number>, class Team = LaneTeam<Real>>
YOTTA_BODY void scaled_softmax_row(Number* x, int64_t n, Real log_sum_exp, Real scale,
                                   Team team = {}) {
  team.each(n, [&](int64_t i, auto count) {
    store(x + i, scale * exponential(load(x + i, count) - log_sum_exp), count);
  });
}

template <class Number, class Real = Computed<Number>>
struct CrossEntropyRow {
  int64_t V;
  const Number* logits;
  const int32_t* targets;
  Real *losses, *log_sum_exps;
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const Real l = log_sum_exp(logits + n * V, V, team);
    team.once([&] {
      log_sum_exps[n] = l;
      losses[n] = Real{0};
      const bool has_target = targets[n] >= 0 && targets[n] < V;  // on a device not checked yet
      if (has_target) losses[n] = l - load(logits + n * V + targets[n], OneLane{});
    });
  }
};

// *to += scale * the sum of the losses, in double and in a fixed order; in a kernel.
template <class Real>
struct SumOfLosses {
  int64_t N;
  const Real* losses;
  double scale;
  double* to;
  template <class Team>
  YOTTA_BODY void operator()(int64_t, Team team) const {
    const double sum =
        team.sum(N, [&](int64_t n, OneLane) { return static_cast<double>(losses[n]); });
    team.once([&] { *to += scale * sum; });
  }
};

// x = scale softmax(x) at the target; -= scale. What was rounded to bf16 is computed again from its
// logit: of scale (0.999 - 1) nothing would be left.
template <class Number, class Real>
YOTTA_BODY void subtract(Number* x, Real scale, Real log_sum_exp, Real logit) {
  if constexpr (std::is_same_v<Number, Real>)
    *x -= scale;
  else
    *x = static_cast<Number>(scale * (std::exp(logit - log_sum_exp) - Real{1}));
}

template <class Number, class Real = Computed<Number>>
struct CrossEntropyBackwardRow {
  int64_t V;
  Number* logits;
  const int32_t* targets;
  const Real* log_sum_exps;
  Real scale;
  int64_t first;  // word held here, of the whole vocabulary (parallel/vocab_parallel.hpp)
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const int64_t target = targets[n] - first;
    const bool has_target = targets[n] >= 0, is_here = target >= 0 && target < V && has_target;
    Number* const at = logits + n * V + target;
    const Real logit = is_here ? load(at, OneLane{}) : Real{0};
    team.meet();  // all have read it
    scaled_softmax_row(logits + n * V, V, log_sum_exps[n], has_target ? scale : Real{0}, team);
    team.meet();
    if (is_here) team.once([&] { subtract(at, scale, log_sum_exps[n], logit); });
  }
};

}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/cross_entropy.ipp"
#endif
