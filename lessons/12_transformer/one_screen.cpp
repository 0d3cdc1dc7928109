// A transformer, its backward pass written out, learns a sequence of sixteen tokens by heart.
// The loss begins at log 16 = 2.8, that of a guess, and ends near 0.
#include <fmt/format.h>

#include "yotta/model/transformer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cross_entropy.hpp"

using namespace yotta;

int main() {
  const Transformer model(gpt2_config(/*layers=*/2, /*width=*/32, /*heads=*/4, /*context=*/15,
                                      /*vocabulary=*/16));
  AdamW optimizer(parameters(model.stack()));
  std::vector<int32_t> text = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  const Tensor ids = Tensor::from<int32_t>({text.begin(), text.end() - 1}, {1, 15});
  const Tensor next = Tensor::from<int32_t>({text.begin() + 1, text.end()}, {15});
  double first = 0, last = 0;
  for (int step = 0; step < 100; ++step) {
    zero_gradients(model.stack());
    Saved saved;
    const Tensor logits = forward(model.stack(), ids, saved).reshape({15, 16});
    const CrossEntropy loss = cross_entropy(logits, next, 1.0 / 15);
    const Tensor dlogits = cross_entropy_backward(logits, next, loss.log_sum_exp, 1.0 / 15);
    backward(model.stack(), dlogits.reshape({1, 15, 16}), saved);
    optimizer.step(0.01);
    if (step == 0) first = loss.loss;
    last = loss.loss;
  }
  fmt::print("loss {:.2f} in step 1, {:.3f} in step 100\n", first, last);
  const bool learned = first > 2.5 && first < 3.1 && last < 0.1;
  if (!learned) fmt::print("2.8 and less than 0.1 are right\n");
  return learned ? 0 : 1;
}
