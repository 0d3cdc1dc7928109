// The first thing on screen after ./yotta tour: a linear net on one rank and on four, with DDP. One
// plain file over the headers is built in seconds; the rest of the tour takes longer.
#include <fmt/format.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/ddp.hpp"

using namespace yotta;

namespace {

constexpr LinearNetConfig config{2, 16};  // layers, width
constexpr int64_t rows = 32;              // of the whole batch

// Rows [begin, end) of a step's batch, the same whoever asks.
Tensor batch_rows(int64_t step, BatchShard shard) {
  Tensor x = Tensor::empty({shard.end - shard.begin, config.width});
  const Random random(static_cast<uint64_t>(step), "x");
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] =
        static_cast<float>(random.normal(static_cast<uint64_t>(shard.begin * config.width + i)));
  return x;
}

// The net learns to return its input: loss = sum (y - x)^2 / (2 rows). Returns this rank's part,
// and leaves its gradients in the parameters.
double forward_and_backward(Layers net, const Tensor& x) {
  Saved saved;
  Tensor y = forward(net, x, saved);
  double loss = 0;
  for (int64_t i = 0; i < y.numel(); ++i) {
    const float error = y.data<float>()[i] - x.data<float>()[i];
    loss += error * error / (2.0 * rows);
    y.data<float>()[i] = error / rows;
  }
  backward(net, y, saved);
  return loss;
}

// The loss of each step, on `ranks` ranks that share the batch.
std::vector<double> train(int ranks, int64_t steps) {
  std::vector<double> losses;
  run_ranks(ranks, [&](Communicator& world) {
    const std::vector<LayerPtr> net = make_linear_net(config);
    const std::vector<ParameterPtr> all = parameters(Layers(net));
    Ddp ddp(all, world, {.op = ReduceOp::sum});
    Sgd optimizer(all);
    const BatchShard mine = batch_shard(rows, world.size(), world.rank());
    for (int64_t step = 0; step < steps; ++step) {
      zero_gradients(net);
      std::vector<double> loss = {forward_and_backward(net, batch_rows(step, mine))};
      ddp.finish();
      world.all_reduce(loss);
      optimizer.step(0.3);
      if (world.rank() == 0) losses.push_back(loss[0]);
    }
  });
  return losses;
}

}  // namespace

int main() {
  fmt::print(
      stderr,
      "First steps: two linear layers learn to return their input, on 1 rank and on 4 with DDP.\n");
  const std::vector<double> one = train(1, 5), four = train(4, 5);
  for (size_t step = 0; step < one.size(); ++step)
    fmt::print(stderr, "step {}: loss {:.4f} on 1 rank, {:.4f} on 4\n", step, one[step],
               four[step]);
}
