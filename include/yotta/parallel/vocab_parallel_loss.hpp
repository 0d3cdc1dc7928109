// The loss of a vocabulary on several ranks, without ever gathering the logits.
//
//     logits      (B, T, V/tp) on each rank
//     loss        log(sum of e^logit) over all V, and one logit     two all_reduces of 3 B T
//
// Logits are the largest tensor of a model: at V = 128,256 gathering them would move 128,256
// numbers per token; three suffice. With l_r = log-sum-exp of this rank's logits and m = the
// largest of the l_r:
//
//     log-sum-exp over all = m + log(sum over r of e^(l_r - m))    no e^ of a large number anywhere
//     logit of the target  = sum over r of (rank r's, if it holds the target, else 0)
//
// Backward needs nothing from other ranks: dlogit_v = scale (e^(logit_v - l) - 1[v = target]), for
// the v held here.
//
// Where tp does not divide V, the last ranks' logits end in padding (vocab_parallel.hpp). It is
// masked, so that it adds e^-1e30 = 0 to the sum and gets no gradient.
//
// Contract: the same targets on all ranks of tp; checked against the whole V.
// Letters: N tokens, V vocabulary, tp ranks.
// References: Shoeybi et al. (2019), section 3; Megatron-LM's vocab-parallel cross-entropy.
#pragma once

#include <algorithm>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/embedding.hpp"

namespace yotta {

// Padding's logits, which must not count: so small that e^ of it is 0, and no infinity.
inline constexpr double masked_logit = -1e30;

namespace detail {

template <class Number>
struct MaskRow {
  int64_t held, in_whole;
  Number* logits;  // (N, held)
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    using Real = Computed<Number>;
    Number* const padding = logits + n * held + in_whole;
    team.each(held - in_whole, [&](int64_t v, auto count) {
      store(padding + v, decltype(load(padding, count)){} + static_cast<Real>(masked_logit), count);
    });
  }
};

}  // namespace detail

// Masks those of logits (..., V/tp). Nothing where V divides by tp.
inline void mask_padding(Tensor& logits, int64_t vocabulary, const Communicator& tp,
                         Where where = Where::current()) {
  const int64_t held = logits.dim(-1), left = vocabulary - axis_rank(tp) * held;
  const int64_t in_whole = std::clamp<int64_t>(left, 0, held);
  const Device device = logits.device();
  if (in_whole == held || device == Device::meta) return;
  visit_activation(logits.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::MaskRow<Number> body{held, in_whole, logits.address<Number>(device, where)};
    run_rows<Number>("mask_padding", device, logits.numel() / held, held, body, where);
  });
}

// What each rank sends in the loss, besides the ring's factor 2(tp-1)/tp: three numbers per token,
// against V if the logits were gathered.
constexpr int64_t vocab_parallel_loss_numbers(int64_t N) { return 3 * N; }

namespace detail {

// The three steps of the loss, between which the ranks sum; a row is a token.
template <class Number, class Real = Computed<Number>>
struct VocabParallelRow {
  int64_t held, first;   // words here, of the whole vocabulary
  const Number* logits;  // (N, held)
  const int32_t* targets;
  Real *log_sum_exps, *losses;  // (N)
  Real* sums;                   // (N, 2)
};

// Step<Number> for each token; nothing on meta.
template <template <class> class Step>
void each_token(const char* operation, const Tensor& logits, const Tensor& targets, int64_t first,
                CrossEntropy& out, Tensor& sums, Where where) {
  const Device device = logits.device();
  if (device == Device::meta) return;
  const int64_t N = logits.dim(0), held = logits.dim(1);
  visit_activation(logits.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const VocabParallelRow<Number> row{held,
                                       first,
                                       logits.address<Number>(device, where),
                                       targets.address<int32_t>(device, where),
                                       out.log_sum_exp.address<Real>(device),
                                       out.losses.address<Real>(device),
                                       sums.address<Real>(device)};
    run_rows<Number>(operation, device, N, held, Step<Number>{row}, where);
  });
}

// l = this rank's log-sum-exp; the largest of all ranks' is wanted.
template <class Number>
struct OwnLogSumExp : VocabParallelRow<Number> {
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const auto l = log_sum_exp(this->logits + n * this->held, this->held, team);
    team.once([&] { this->log_sum_exps[n] = this->losses[n] = l; });
  }
};
// e^(l - m), and the target's logit if it is here; their sums are wanted. `losses` holds m.
template <class Number>
struct OwnSums : VocabParallelRow<Number> {
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const int64_t own = this->targets[n] - this->first;
    team.once([&] {
      this->sums[2 * n] = std::exp(this->log_sum_exps[n] - this->losses[n]);
      this->sums[2 * n + 1] =
          own >= 0 && own < this->held ? load(this->logits + n * this->held + own, OneLane{}) : 0;
    });
  }
};
// l = m + log(sum), loss = l - logit.
template <class Number>
struct LossOfSums : VocabParallelRow<Number> {
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    team.once([&] {
      const auto l = this->losses[n] + std::log(this->sums[2 * n]);
      this->log_sum_exps[n] = l;
      this->losses[n] = this->targets[n] < 0 ? decltype(l){0} : l - this->sums[2 * n + 1];
    });
  }
};

}  // namespace detail

// The loss of logits (N, V/tp) against targets i32 (N), which are ids of the whole vocabulary; the
// same on all ranks.
inline CrossEntropy vocab_parallel_cross_entropy(const Tensor& logits, const Tensor& targets,
                                                 double scale, const Communicator& tp = {},
                                                 Where where = Where::current()) {
  if (axis_size(tp) == 1) return cross_entropy(logits, targets, scale, where);
  const char* const operation = "vocab_parallel_cross_entropy";
  expect_dims(operation, "logits", logits, 2, "(N, V/tp)", where);
  expect_shape(operation, "targets", targets, {logits.dim(0)}, where);
  const int64_t N = logits.dim(0), held = logits.dim(1), first = axis_rank(tp) * held;
  detail::expect_targets(operation, targets, axis_size(tp) * held, where);
  charge(cross_entropy_cost(logits.dtype(), N, held));
  const DType type = computed(logits.dtype());
  CrossEntropy out{0, empty_beside(logits, {N}, type, where),
                   empty_beside(logits, {N}, type, where)};
  Tensor sums = empty_beside(logits, {N, 2}, type, where);
  detail::each_token<detail::OwnLogSumExp>(operation, logits, targets, first, out, sums, where);
  tp.all_reduce(out.losses, ReduceOp::max, {.label = "tp.loss"}, where);
  detail::each_token<detail::OwnSums>(operation, logits, targets, first, out, sums, where);
  tp.all_reduce(sums, ReduceOp::sum, {.label = "tp.loss"}, where);
  detail::each_token<detail::LossOfSums>(operation, logits, targets, first, out, sums, where);
  if (logits.device() == Device::meta) return out;
  const std::vector<double> losses = out.losses.values();
  for (size_t n = 0; n < losses.size(); ++n) {
    if (losses[n] > -masked_logit / 2)  // on all ranks alike
      fail(where, "{}: the target of token {} is padding, outside the vocabulary", operation, n);
    out.loss += scale * losses[n];
  }
  return out;
}

// Writes dlogits (N, V/tp) over the logits themselves. Nothing is sent.
inline void vocab_parallel_cross_entropy_backward_in_place(Tensor& logits, const Tensor& targets,
                                                           const Tensor& log_sum_exp, double scale,
                                                           const Communicator& tp = {},
                                                           Where where = Where::current()) {
  if (axis_size(tp) == 1)
    return cross_entropy_backward_in_place(logits, targets, log_sum_exp, scale, where);
  const char* const operation = "vocab_parallel_cross_entropy_backward";
  expect_dims(operation, "logits", logits, 2, "(N, V/tp)", where);
  expect_shape(operation, "targets", targets, {logits.dim(0)}, where);
  expect_shape(operation, "log_sum_exp", log_sum_exp, {logits.dim(0)}, where);
  const int64_t N = logits.dim(0), held = logits.dim(1), first = axis_rank(tp) * held;
  charge(cross_entropy_backward_cost(logits.dtype(), N, held));
  const Device device = logits.device();
  if (device == Device::meta) return;
  visit_activation(logits.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const detail::CrossEntropyBackwardRow<Number> body{held,
                                                       logits.address<Number>(device, where),
                                                       targets.address<int32_t>(device, where),
                                                       log_sum_exp.address<Real>(device, where),
                                                       static_cast<Real>(scale),
                                                       first};
    run_rows<Number>(operation, device, N, held, body, where);
  });
}

}  // namespace yotta
