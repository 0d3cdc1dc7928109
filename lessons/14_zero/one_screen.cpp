// ZeRO: four ranks train one model with AdamW, and each keeps a quarter of the optimizer's state.
// The loss is that of one rank that keeps all of it.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/zero.hpp"

using namespace yotta;

// The loss in the last of ten steps, and the bytes of optimizer state that a rank holds.
std::pair<double, int64_t> train(int ranks) {
  double loss = 0;
  const std::vector<RankReport> reports = run_ranks(ranks, [&](Communicator& world) {
    const std::vector<LayerPtr> net = make_linear_net({.layers = 4, .width = 8});
    Zero zero(parameters(net), world, {.stage = 1});
    AdamW optimizer(zero.shards());
    const auto [begin, end] = batch_shard(16, world.size(), world.rank());
    const Tensor x = drawn_rows(16, 8).rows(begin, end);
    for (int step = 0; step < 10; ++step) {
      Saved saved;
      const Tensor y = forward(net, x, saved);
      backward(net, y, saved);
      zero.finish();         // the sum of the ranks' gradients, a quarter for each
      optimizer.step(0.01);  // of a quarter of the weights
      zero.gather();         // all new weights for all
      const double sum = sum_over(world, half_square(y), "loss");
      if (world.rank() == 0) loss = sum;
    }
  });
  return {loss, reports[0].ledger().memory()->peak(MemoryKind::optimizer)};
}

int main() {
  const auto [one, all] = train(1);
  const auto [four, quarter] = train(4);
  fmt::print("one rank: loss {:.6f}, {} bytes of state; four: {:.6f}, {}\n", one, all, four,
             quarter);
  const bool right = std::abs(one - four) < 1e-5 && 4 * quarter == all;
  if (!right) fmt::print("the loss must be the same, and the bytes a quarter\n");
  return right ? 0 : 1;
}
