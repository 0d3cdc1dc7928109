// Sequence parallelism: between the layers that tensor parallelism cuts, ranks share the tokens.
// The loss stays the same, and what a rank keeps for the backward pass is less.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/sequence_parallel.hpp"

using namespace yotta;

// The loss in the last of ten steps on two ranks, and the bytes that rank 0 keeps.
std::pair<double, int64_t> train(bool shares_tokens) {
  std::pair<double, int64_t> result;
  run_ranks(2, [&](Communicator& tp) {
    Transformer model(gpt2_config(2, 32, 4, 8, 16));  // layers, width, heads, context, words
    tensor_parallel(model, tp);
    if (shares_tokens) sequence_parallel(model, tp, 8);
    const std::vector<ParameterPtr> all = parameters(model.stack());
    Sgd optimizer(all);
    const Tensor ids = Tensor::from<int32_t>({3, 1, 4, 1, 5, 9, 2, 6}, {1, 8});
    const Tensor next = Tensor::from<int32_t>({1, 4, 1, 5, 9, 2, 6, 5}, {1, 8});
    for (int step = 0; step < 10; ++step) {
      zero_gradients(model.stack());
      Saved saved;
      Tensor logits = forward(model.stack(), ids, saved), dlogits;
      const int64_t kept = saved.bytes();
      const double loss = vocab_parallel_loss(16, tp)(logits, next, 1.0 / 8, &dlogits);
      backward(model.stack(), dlogits, saved);
      if (shares_tokens) reduce_own_token_gradients(all, tp);  // of norms
      optimizer.step(0.2);
      if (tp.rank() == 0) result = {loss, kept};
    }
  });
  return result;
}

int main() {
  const auto [tensors, all] = train(false);
  const auto [tokens, some] = train(true);
  fmt::print("loss {:.5f}, {} bytes kept; tokens shared: {:.5f}, {}\n", tensors, all, tokens, some);
  const bool right = std::abs(tensors - tokens) < 1e-4 && 10 * some < 8 * all;
  if (!right) fmt::print("the loss must be the same, and the bytes fewer than 0.8 of them\n");
  return right ? 0 : 1;
}
