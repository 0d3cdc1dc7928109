// DiLoCo: four workers train alone for ten steps, then average their weights: a tenth of the bytes.
// With an average after each step, and no momentum, the loss would be that of one rank.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/diloco.hpp"

using namespace yotta;

// The loss of the batch afterwards, and the bytes of averages that a worker has sent.
std::pair<double, int64_t> train(int workers, int64_t inner, int steps) {
  double loss = 0;
  const std::vector<RankReport> reports = run_ranks(workers, [&](Communicator& world) {
    const std::vector<LayerPtr> net = make_linear_net({.layers = 4, .width = 8});
    Sgd optimizer(parameters(net));
    Diloco diloco(optimizer, world, {.inner = inner, .learning_rate = 1, .momentum = 0});
    const WorkerShare mine = worker_share(16, workers, world.rank());
    const Tensor x = drawn_rows(16, 8).rows(mine.begin, mine.end);
    for (int step = 0; step < steps; ++step) {
      zero_gradients(net);
      Saved saved;
      backward(net, forward(net, x, saved), saved);  // half of y^2 has y as its gradient
      optimizer.step(0.002 * workers);               // the gradient is of a part of the batch
      diloco.after_step();
    }
    Saved saved;
    if (world.rank() == 0) loss = half_square(forward(net, drawn_rows(16, 8), saved));
  });
  return {loss, reports[0].ledger().traffic("diloco.mean").bytes_sent};
}

int main() {
  const double start = train(1, 1, 0).first, one = train(1, 1, 20).first;
  const auto [same, bytes] = train(4, 1, 20);
  const auto [seldom, tenth] = train(4, 10, 20);
  fmt::print("loss {:.3f} at the start, {:.3f} after 20 steps on one rank\n", start, one);
  fmt::print("averages of four: {:.3f} with {} bytes, {:.3f} with {}\n", same, bytes, seldom,
             tenth);
  const bool right = std::abs(one - same) < 1e-4 && 10 * tenth == bytes && seldom < start / 5;
  if (!right) fmt::print("the same loss with each step's average; and a tenth of the bytes\n");
  return right ? 0 : 1;
}
