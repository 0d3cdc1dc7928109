// Parallelism on four axes: one transformer on 16 ranks. Two share each of its layers (tp), its
// stack (pp), its weights (fsdp) and its batch (dp). The loss is that of one rank.
#include <fmt/format.h>

#include <cmath>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/sgd.hpp"

using namespace yotta;

// The loss in the last of five steps.
double train(const MeshShape& shape) {
  double loss = 0;
  run_ranks(static_cast<int>(shape.ranks()), [&](Communicator& world) {
    Mesh mesh(world, shape);
    NdParallel model(gpt2_config(2, 16, 2, 8, 256), mesh, {.microbatches = 2});
    Sgd optimizer(model.parameters());
    const Schedule rate = {.peak = 0.5, .floor = 0.5, .warmup = 0};
    Trainer trainer(model.stack(), optimizer, {.schedule = rate}, model.hooks());
    const Batches text("One page composes all axes, and the loss is that of one rank.", 8, 1);
    const BatchShard mine = model.share(8);
    for (int64_t step = 0; step < 5; ++step) {
      const Batch batch = text.draw(step, mine.begin, mine.end - mine.begin);
      const StepReport report =
          trainer.step(step, model.microbatches(batch.inputs, batch.targets, mine.begin), 8 * 8);
      if (world.rank() == 0) loss = report.loss;
    }
  });
  return loss;
}

int main() {
  const double one = train({}), all = train({.tp = 2, .pp = 2, .dp_shard = 2, .dp_replicate = 2});
  fmt::print("loss in step 5: {:.5f} on one rank, {:.5f} on 16\n", one, all);
  const bool same = std::abs(one - all) < 1e-4;
  if (!same) fmt::print("they must be the same\n");
  return same ? 0 : 1;
}
