// A transformer, its backward pass written out, learns a text of sixteen tokens by heart.
// The loss begins at log 16 = 2.8, that of a guess, and ends near 0.
#include <fmt/format.h>

#include "yotta/nn/adamw.hpp"
#include "yotta/nn/loss.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;

int main() {
  // 2 layers of width 32, 4 heads, 15 tokens of context, 16 words
  const Transformer model(gpt2_config(2, 32, 4, 15, 16));
  AdamW optimizer(parameters(model.stack()));
  const std::vector<int32_t> text = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  const Tensor ids = Tensor::from<int32_t>({text.begin(), text.end() - 1}, {1, 15});
  const Tensor next = Tensor::from<int32_t>({text.begin() + 1, text.end()}, {1, 15});
  double first = 0, last = 0;
  for (int step = 0; step < 100; ++step) {
    zero_gradients(model.stack());
    Saved saved;
    Tensor dlogits;
    last = loss_of(forward(model.stack(), ids, saved), next, 1.0 / 15, &dlogits);
    backward(model.stack(), dlogits, saved);
    optimizer.step(0.01);
    if (step == 0) first = last;
  }
  fmt::print("loss {:.2f} in step 1, {:.3f} in step 100\n", first, last);
  const bool learned = first > 2.5 && first < 3.1 && last < 0.01;
  if (!learned) fmt::print("2.8 and less than 0.01 are right\n");
  return learned ? 0 : 1;
}
