// The loss of a model that ends in logits, and the gradient with which its backward pass begins.
//
//     logits (B, T, V), targets (B, T) ──> loss, a number     scale = 1 / tokens of the whole batch
//                                      └─> dlogits (B, T, V)    they take the logits' place
//
// A trainer takes it as a function: where the logits are not whole, another one computes the loss
// (lesson 20). FLOPs, memory and the formula: cross_entropy.hpp.
#pragma once

#include <functional>

#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/linear.hpp"

namespace yotta {

// Returns scale * the sum of the tokens' losses. dlogits: null if no gradient is wanted.
using LossOf =
    std::function<double(Tensor logits, const Tensor& targets, double scale, Tensor* dlogits)>;

// The loss of logits (B, T, V) against targets (B, T) i32, the token after each.
inline double loss_of(Tensor logits, const Tensor& targets, double scale, Tensor* dlogits) {
  Tensor rows = as_rows(logits);  // (N, V)
  const Tensor wanted = targets.reshape({targets.numel()});
  const CrossEntropy loss = cross_entropy(rows, wanted, scale);
  if (dlogits == nullptr) return loss.loss;
  cross_entropy_backward_in_place(rows, wanted, loss.log_sum_exp, scale);
  *dlogits = std::move(logits);
  return loss.loss;
}

// Is it loss_of, and no other one?
inline bool is_loss_of(const LossOf& loss) {
  using Function = double (*)(Tensor, const Tensor&, double, Tensor*);
  const Function* const target = loss.target<Function>();
  return target != nullptr && *target == loss_of;
}

// loss_of on Device::cuda, where the loss stays: it is added to the number there.
inline void loss_onto(double* loss, Tensor logits, const Tensor& targets, double scale,
                      Tensor* dlogits) {
  Tensor rows = as_rows(logits);  // (N, V)
  const Tensor wanted = targets.reshape({targets.numel()});
  const CrossEntropy kept = cross_entropy_onto(loss, rows, wanted, scale);
  cross_entropy_backward_in_place(rows, wanted, kept.log_sum_exp, scale);
  *dlogits = std::move(logits);
}

}  // namespace yotta
