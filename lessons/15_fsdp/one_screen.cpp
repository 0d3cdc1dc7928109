// FSDP: four ranks train one model, and each holds a quarter of the weights between the steps.
// A layer's weights are gathered for as long as it computes. The loss is that of one rank.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/fsdp.hpp"

using namespace yotta;

// The loss in the last of ten steps, and the bytes of weights that rank 0 holds after it.
std::pair<double, int64_t> train(int ranks) {
  std::pair<double, int64_t> result;
  run_ranks(ranks, [&](Communicator& world) {
    const std::vector<LayerPtr> net = make_linear_net({.layers = 4, .width = 8});
    Fsdp fsdp(net, world);
    Sgd optimizer(parameters(fsdp.stack()));
    const auto [begin, end] = batch_shard(16, world.size(), world.rank());
    const Tensor x = drawn_rows(16, 8).rows(begin, end);
    for (int step = 0; step < 10; ++step) {
      zero_gradients(fsdp.stack());
      Saved saved;
      const Tensor y = forward(fsdp.stack(), x, saved);
      backward(fsdp.stack(), y, saved);
      fsdp.finish();
      optimizer.step(0.01);
      const double loss = sum_over(world, half_square(y), "loss");
      const int64_t held = context().ledger.memory()->live(MemoryKind::parameters);
      if (world.rank() == 0) result = {loss, held};
    }
  });
  return result;
}

int main() {
  const auto [one, all] = train(1);
  const auto [four, quarter] = train(4);
  fmt::print("one rank: loss {:.6f}, {} bytes of weights; four: {:.6f}, {}\n", one, all, four,
             quarter);
  const bool right = std::abs(one - four) < 1e-5 && 4 * quarter == all;
  if (!right) fmt::print("the loss must be the same, and the bytes a quarter\n");
  return right ? 0 : 1;
}
