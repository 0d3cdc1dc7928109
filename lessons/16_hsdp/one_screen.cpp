// HSDP: four ranks in two groups. In a group the ranks share one copy of the weights, as FSDP does.
// Between the groups only shards of gradients travel: a third of the bytes that travel inside.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/hsdp.hpp"

using namespace yotta;

int main() {
  double losses[2] = {};  // in the last of ten steps: on one rank, and on four
  int64_t inside = 0, between = 0;
  for (const int ranks : {1, 4}) {
    const std::vector<RankReport> reports = run_ranks(ranks, [&](Communicator& world) {
      const std::vector<LayerPtr> net = make_linear_net({.layers = 4, .width = 8});
      Hsdp hsdp(net, hsdp_ranks(world, ranks == 1 ? 1 : 2));
      Sgd optimizer(parameters(hsdp.stack()));
      const auto [begin, end] = batch_shard(16, ranks, world.rank());
      for (int step = 0; step < 10; ++step) {
        zero_gradients(hsdp.stack());
        Saved saved;
        const Tensor y = forward(hsdp.stack(), drawn_rows(16, 8).rows(begin, end), saved);
        backward(hsdp.stack(), y, saved);
        hsdp.finish();
        optimizer.step(0.01);
        const double sum = sum_over(world, half_square(y), "loss");
        if (world.rank() == 0) losses[ranks == 4] = sum;
      }
    });
    const Ledger& sent = reports[0].ledger();
    inside = sent.traffic("fsdp.all_gather").bytes_sent + sent.traffic("fsdp.reduce").bytes_sent;
    between = sent.traffic("hsdp.all_reduce").bytes_sent;
  }
  fmt::print("loss {:.6f} on one rank, {:.6f} on four\n", losses[0], losses[1]);
  fmt::print("rank 0 sent {} bytes inside its group, {} to the other\n", inside, between);
  const bool right = std::abs(losses[0] - losses[1]) < 1e-5 && 3 * between == inside;
  if (!right) fmt::print("the losses must be the same, and the bytes a third\n");
  return right ? 0 : 1;
}
