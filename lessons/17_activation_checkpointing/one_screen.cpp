// Activation checkpointing: of sixteen layers only every fourth one's input is kept.
// The rest is computed again when its backward pass comes. The gradients are the same bits.
#include <fmt/format.h>

#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/activation_checkpointing.hpp"

using namespace yotta;

// Forward and backward: the first layer's gradient, and the bytes kept between the two.
struct Result {
  std::vector<double> gradient;
  int64_t bytes;
};
Result run(const std::vector<LayerPtr>& model) {
  zero_gradients(model);
  Saved saved;
  const Tensor y = forward(model, drawn_rows(16, 8), saved);
  const int64_t bytes = saved.bytes();
  backward(model, y, saved);
  return {parameters(model)[0]->grad.values(), bytes};
}

int main() {
  const std::vector<LayerPtr> net = make_linear_net({.layers = 16, .width = 8});
  const Result all = run(net), some = run(checkpointed(net, {.every = 4}));
  fmt::print("kept for backward: {} bytes, with checkpoints {}\n", all.bytes, some.bytes);
  const bool right = some.gradient == all.gradient && 4 * some.bytes == all.bytes;
  if (!right) fmt::print("the gradients must be the same, and the bytes a quarter\n");
  return right ? 0 : 1;
}
