// Chunked loss: logits of some tokens at a time. Logits are the largest tensor of a model with a
// large vocabulary: at V = 50,257 a token has 65 times as many of them as C = 768 numbers.
//
//     all at once    x (N, C) ──> logits (N, V) ──> loss, dlogits (N, V) ──> dx (N, C), dW += ...
//
//     in chunks      x ─┬─ n tokens ─> logits (n, V) ─> loss, dlogits (n, V) ─┬─> dx of them
//                       │                                                     └─> dW += dlogits' x
//                       ├─ n tokens ─> the same memory again
//                       └─ ...
//
// The loss is a sum over tokens, and what a token's logits send back depends on no other token. So
// a chunk's dlogits go on to dx and dW as soon as they are there, and nothing is computed twice.
//
// The output matrix moves into the loss: the head hands the normalised x (B, T, C) on, and takes dx
// in place of dlogits. `each` computes a chunk's loss: loss_of, or that of a part of the vocabulary
// on each rank (lesson 20).
//
//     const LossOf loss = chunked_loss(*model.head(), 512);
//     loss(forward(model.stack(), ids, saved), targets, scale, &dx);
//     backward(model.stack(), dx, saved);
//
// Cost: the FLOPs of the plain loss. Bytes held: n V logits, not N V. Each chunk reads W and adds
// to dW (chunked_loss_more_bytes()): measured on one core, the loss and the output matrix take 1 to
// 2% longer in chunks of 1,024 tokens, and 5 to 8% in chunks of 256.
// Contract: dW is added when the loss is computed, so gradients are set to zero before a step's
// first loss, not between loss and backward. The weights are there: not with FSDP. The head has no
// bias, outlives the loss, and from then on runs with this loss or another of this function.
// Letters: N tokens of this rank, n of a chunk, C width, V vocabulary, W (V, C) the output matrix.
// References: Hsu et al. (2024), Liger Kernel: fused linear cross-entropy; Wijmans et al. (2024),
// Cut Your Losses.
#pragma once

#include <algorithm>

#include "yotta/nn/loss.hpp"
#include "yotta/nn/transformer.hpp"

namespace yotta {

// Bytes of logits that exist at once: of n tokens, or of all N if they are fewer.
constexpr int64_t logits_bytes(DType dtype, int64_t N, int64_t n, int64_t V) {
  return std::min(n, N) * V * bytes_of(dtype);
}
// Bytes of W and dW that chunks move more than the plain loss does, as the ledger counts them:
// forward and dx read W, dW is written once, in the type of W. All three for each chunk but the
// first.
constexpr int64_t chunked_loss_more_bytes(DType dtype, int64_t N, int64_t n, int64_t C, int64_t V) {
  const int64_t chunks = (N + n - 1) / n;
  return 3 * (chunks - 1) * V * C * bytes_of(dtype);
}

// What stands where the head's linear layer stood. Keeps x only for layers around it that share it
// out (sequence parallelism).
class LinearInLoss : public Linear {
 public:
  explicit LinearInLoss(Linear&& of) : Linear(std::move(of)) {}

  // x (..., C), which the loss multiplies.
  Tensor forward(const Tensor& x, Saved& saved) override {
    saved.keep("x", as_type(as_rows(x), weight_.dtype()));
    return x;
  }
  // dx (..., C), which the loss has made.
  Tensor backward_input(const Tensor& dx, Saved&) override { return dx; }
  // The loss has added to dW. If the losses of several microbatches came first, a listener may have
  // taken all of dW with the first of them: then there is nothing to add for this one.
  void backward_weight(Saved& saved) override {
    saved.take("x");
    weight_.grad();  // zeros, if it was taken
    weight_.mark_grad_ready();
  }
};

namespace detail {

// The loss of a chunk x (n, C). dx (n, C) zeros, or null if no gradient is wanted.
inline double loss_of_chunk(LinearInLoss& linear, const LossOf& each, const Tensor& x,
                            const Tensor& targets, double scale, Tensor* dx) {
  Saved saved;
  Tensor dlogits;  // (n, V)
  const double loss =
      each(linear.Linear::forward(x, saved), targets, scale, dx == nullptr ? nullptr : &dlogits);
  if (dx == nullptr) return loss;
  {
    const PhaseScope phase(Phase::backward_input);
    linear.add_backward_input(*dx, dlogits, saved);
  }
  const PhaseScope phase(Phase::backward_weight);
  linear_backward_weight(saved.take("dy"), saved.take("x"), linear.weight_parameter().gradient());
  return loss;
}

// The head's linear layer as one in the loss.
inline LinearInLoss& in_loss(Head& head, Where where) {
  Linear& linear = (*head.out)[0];
  if (auto* const already = dynamic_cast<LinearInLoss*>(&linear)) return *already;
  if (linear.bias_parameter() != nullptr)
    fail(where, "chunked_loss: {} has a bias, to whose gradient the loss would not add",
         linear.name());
  head.out->replace(0, std::make_unique<LinearInLoss>(std::move(linear)));
  return static_cast<LinearInLoss&>((*head.out)[0]);
}

}  // namespace detail

// Moves the head's output matrix into the loss, which it returns: of x (B, T, C) in place of
// logits, `tokens` of them at a time; what it writes in place of dlogits is dx (B, T, C).
inline LossOf chunked_loss(Head& head, int64_t tokens, LossOf each = loss_of,
                           Where where = Where::current()) {
  if (tokens < 1) fail(where, "chunked_loss: chunks of {} tokens; it takes 1 or more", tokens);
  LinearInLoss* const linear = &detail::in_loss(head, where);
  return [=](const Tensor& x, const Tensor& targets, double scale, Tensor* dx) {
    const Tensor rows = as_rows(x), wanted = targets.reshape({targets.numel()});
    if (dx != nullptr) *dx = zeros_like(x, where);
    const Tensor drows = dx == nullptr ? Tensor() : as_rows(*dx);
    double loss = 0;
    for (int64_t begin = 0; begin < rows.dim(0); begin += tokens) {
      const int64_t end = std::min(begin + tokens, rows.dim(0));
      Tensor part = dx == nullptr ? Tensor() : drows.rows(begin, end);
      loss += detail::loss_of_chunk(*linear, each, rows.rows(begin, end), wanted.rows(begin, end),
                                    scale, dx == nullptr ? nullptr : &part);
    }
    return loss;
  };
}

}  // namespace yotta
