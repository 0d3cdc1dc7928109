// DDP: four ranks train one model, each on a quarter of the batch, and add up their gradients.
// The loss is that of one rank with the whole batch.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;

// The loss of the whole batch in the last of ten steps.
double train(int ranks) {
  double loss = 0;
  run_ranks(ranks, [&](Communicator& world) {
    const std::vector<LayerPtr> net = make_linear_net({.layers = 4, .width = 8});
    Ddp ddp(parameters(net), world);
    Sgd optimizer(parameters(net));
    const auto [begin, end] = batch_shard(16, world.size(), world.rank());
    const Tensor x = drawn_rows(16, 8).rows(begin, end);
    for (int step = 0; step < 10; ++step) {
      zero_gradients(net);
      Saved saved;
      const Tensor y = forward(net, x, saved);
      backward(net, y, saved);  // the loss is half of y^2, so its gradient is y
      ddp.finish();
      optimizer.step(0.01);
      const double sum = sum_over(world, half_square(y), "loss");
      if (world.rank() == 0) loss = sum;
    }
  });
  return loss;
}

int main() {
  const double one = train(1), four = train(4);
  fmt::print("loss in step 10: {:.6f} on one rank, {:.6f} on four\n", one, four);
  const bool same = std::abs(one - four) < 1e-5;
  if (!same) fmt::print("they must be the same\n");
  return same ? 0 : 1;
}
