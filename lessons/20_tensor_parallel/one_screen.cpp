// Tensor parallelism: a transformer on two ranks, each with half of every layer's heads and widths.
// The loss is that of one rank. Each of the two holds little more than half of the weights.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/vocab_parallel.hpp"

using namespace yotta;

// The loss in the last of ten steps, and the numbers in the weights of a rank.
std::pair<double, int64_t> train(int ranks) {
  std::pair<double, int64_t> result;
  run_ranks(ranks, [&](Communicator& tp) {
    Transformer model(gpt2_config(2, 32, 4, 8, 16));  // layers, width, heads, context, words
    tensor_parallel(model, tp);
    const LossOf loss_of_part = vocab_parallel_loss(16, tp);
    Sgd optimizer(parameters(model.stack()));
    const Tensor ids = Tensor::from<int32_t>({3, 1, 4, 1, 5, 9, 2, 6}, {1, 8});
    const Tensor next = Tensor::from<int32_t>({1, 4, 1, 5, 9, 2, 6, 5}, {1, 8});
    for (int step = 0; step < 10; ++step) {
      zero_gradients(model.stack());
      Saved saved;
      Tensor dlogits;
      const double loss = loss_of_part(forward(model.stack(), ids, saved), next, 1.0 / 8, &dlogits);
      backward(model.stack(), dlogits, saved);
      optimizer.step(0.2);
      if (tp.rank() == 0) result = {loss, parameter_count(model.stack())};
    }
  });
  return result;
}

int main() {
  const auto [one, all] = train(1);
  const auto [two, half] = train(2);
  fmt::print("one rank: loss {:.5f}, {} weights; two: {:.5f}, {} on each\n", one, all, two, half);
  const bool right = std::abs(one - two) < 1e-4 && 100 * half < 54 * all;
  if (!right) fmt::print("the loss must be the same, and the weights little more than half\n");
  return right ? 0 : 1;
}
