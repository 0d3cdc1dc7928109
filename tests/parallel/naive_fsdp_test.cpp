#include "yotta/parallel/naive_fsdp.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr LinearNetConfig net = {5, 6};
constexpr int64_t rows = 13;
constexpr int64_t one_layer = net.width * net.width;

// Forward and backward of this rank's rows of a step, in some microbatches; returns its part of the
// loss.
double run_share(Layers stack, Communicator& world, int64_t step, int64_t microbatches) {
  const int64_t first = chunk_begin(rows, world.size(), world.rank());
  const int64_t count = chunk_count(rows, world.size(), world.rank());
  double loss = 0;
  for (int64_t i = 0; i < microbatches; ++i)
    loss += run_microbatch(stack, step, first + chunk_begin(count, microbatches, i),
                           first + chunk_begin(count, microbatches, i + 1), net.width, rows);
  return loss;
}

void train(Communicator& world, int64_t microbatches, bool sharded, Trained& out) {
  const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
  const std::vector<LayerPtr> lent =
      sharded ? make_naive_fsdp(model, world) : std::vector<LayerPtr>{};
  const Layers stack = sharded ? Layers(lent) : Layers(model);
  const std::vector<ParameterPtr> own = parameters(stack);
  AdamW optimizer(own);
  for (int64_t step = 0; step < 3; ++step) {
    zero_gradients(stack);
    std::vector<double> loss = {run_share(stack, world, step, microbatches)};
    world.all_reduce(loss);
    if (world.rank() == 0) out.losses.push_back(loss[0]);
    for (const ParameterPtr& each : own)
      if (step == 0) out.gradients.add(each->name, one_layer, 0, each->grad);
    optimizer.step(0.01);
  }
  for (const ParameterPtr& each : own) out.weights.add(each->name, one_layer, 0, each->value);
}

}  // namespace

TEST_CASE("losses, gradients and weights equal the single rank's") {
  Trained serial;
  run_ranks(1, [&](Communicator& world) { train(world, 1, false, serial); });
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int64_t microbatches : {1, 2}) {
      Trained trained;
      run_ranks(ranks, [&](Communicator& world) { train(world, microbatches, true, trained); });
      check_same(trained, serial, ranks);
    }
}

TEST_CASE("the ranks hold the model once, unevenly; what is lent comes back") {
  run_ranks(3, [&](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
    const std::vector<LayerPtr> stack = make_naive_fsdp(model, world);
    AdamW optimizer(parameters(Layers(stack)));
    const MemoryCount& memory = *context().ledger.memory();
    context().ledger.memory()->reset_peaks();
    run_share(stack, world, 0, 1);
    optimizer.step(0.01);
    const int64_t owned = (world.rank() == 2 ? 1 : 2) * one_layer * 8;  // 5 layers on 3 ranks
    CHECK(memory.live(MemoryKind::parameters) == owned);
    CHECK(memory.live(MemoryKind::gradients) == owned);
    CHECK(memory.live(MemoryKind::optimizer) == 2 * owned);
    CHECK(memory.live(MemoryKind::buffers) == 0);
    CHECK(memory.peak(MemoryKind::buffers) == one_layer * 8);
  });
}

TEST_CASE("all ranks together send 3 (p-1) N elements, and the owner of a layer most") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    int64_t all = 0;
    for (const RankReport& rank : run_ranks(ranks, [&](Communicator& world) {
           const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
           const std::vector<LayerPtr> stack = make_naive_fsdp(model, world);
           run_share(stack, world, 0, 1);
         }))
      all += rank.ledger().total_traffic().bytes_sent;
    CHECK(all == 8 * naive_fsdp_elements_sent_by_all(ranks, net.layers * one_layer));
  }
}
