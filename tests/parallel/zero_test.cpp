#include "yotta/parallel/zero.hpp"

#include <doctest/doctest.h>

#include "parallel/training_runs.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

constexpr LinearNetConfig net = {5, 6};  // 36 numbers per layer: 3 and 8 ranks need padding
constexpr int64_t rows = 13;             // does not divide by 2, 3, 4 or 8
constexpr int64_t one_weight = net.width * net.width * 8;
constexpr int64_t steps = 3;

void add_all(Whole& to, const Zero& zero, bool gradients) {
  for (const ZeroBucket& bucket : zero.buckets())
    for (const ParameterShard& shard : bucket.shards)
      gradients ? add_gradients(to, shard) : add_values(to, shard);
}

// Forward and backward of this rank's rows of a step; returns its part of the loss.
double run_share(Layers model, Zero& zero, Communicator& world, int64_t step,
                 int64_t microbatches) {
  const int64_t first = chunk_begin(rows, world.size(), world.rank());
  const int64_t count = chunk_count(rows, world.size(), world.rank());
  double loss = 0;
  for (int64_t i = 0; i < microbatches; ++i) {
    zero.flush();
    loss += run_microbatch(model, step, first + chunk_begin(count, microbatches, i),
                           first + chunk_begin(count, microbatches, i + 1), net.width, rows);
  }
  zero.finish();
  return loss;
}

void train(Communicator& world, const ZeroOptions& options, int64_t microbatches, Trained& out) {
  const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
  const std::vector<ParameterPtr> all = parameters(Layers(model));
  Zero zero(all, world, options);
  AdamW optimizer(zero.shards());
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<double> loss = {run_share(model, zero, world, step, microbatches)};
    world.all_reduce(loss);
    if (world.rank() == 0) out.losses.push_back(loss[0]);
    if (step == 0) add_all(out.gradients, zero, true);
    optimizer.step(0.01);
    zero.gather();
  }
  // The last rank's whole weights, not its part: all must have arrived.
  if (world.rank() + 1 == world.size())
    for (const ParameterPtr& each : all)
      out.weights.add(each->name, each->value.numel(), 0, each->value);
}

}  // namespace

TEST_CASE("losses, gradients and weights equal the single rank's, in stages 1 and 2") {
  Trained serial;
  train_serial(net, rows, steps, serial);
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int stage : {1, 2})
      for (const int64_t bucket_bytes : {int64_t{1}, 2 * one_weight, int64_t{1} << 20})
        for (const int64_t microbatches : {1, 2}) {
          CAPTURE(ranks);
          CAPTURE(stage);
          CAPTURE(bucket_bytes);
          Trained trained;
          run_ranks(ranks, [&](Communicator& world) {
            train(world, {stage, bucket_bytes}, microbatches, trained);
          });
          check_same(trained, serial, ranks);
        }
}

TEST_CASE("a step sends what DDP's does; in stage 2 each further microbatch is reduced as well") {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int stage : {1, 2})
      for (const int64_t microbatches : {1, 3})
        run_ranks(ranks, [&](Communicator& world) {
          const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
          Zero zero(parameters(Layers(model)), world, {stage, one_weight});
          const int64_t N = zero.buckets().front().layout.size() * net.layers;
          run_share(model, zero, world, 0, microbatches);
          zero.gather();
          const Ledger& ledger = context().ledger;
          const int64_t once = 8 * N / ranks * (ranks - 1);
          const int64_t times = stage == 1 ? 1 : microbatches;
          CHECK(ledger.traffic("zero.gradients").bytes_sent == times * once);
          CHECK(ledger.traffic("zero.weights").bytes_sent == once);
          if (times == 1)
            CHECK(ledger.total_traffic().bytes_sent == 8 * zero_elements_sent(ranks, N));
        });
}

TEST_CASE("stage 2 sends while backward goes on, one bucket at a time; stage 1 when it has ended") {
  for (const int stage : {1, 2})
    run_ranks(2, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
      Zero zero(parameters(Layers(model)), world, {stage, one_weight});
      const MemoryCount& memory = *context().ledger.memory();
      context().ledger.memory()->reset_peaks();
      run_microbatch(model, 0, 0, 2, net.width, rows);
      const int64_t messages = context().ledger.total_traffic().messages_sent;
      CHECK((messages > 0) == (stage == 2));
      // Two buckets of gradients, one on its way, and this rank's part of it.
      if (stage == 2) CHECK(memory.peak(MemoryKind::buffers) == 2 * one_weight + one_weight / 2);
      zero.finish();
    });
}

TEST_CASE("a parameter that no microbatch used is reduced all the same, in both stages") {
  for (const int stage : {1, 2})
    run_ranks(3, [&](Communicator& world) {
      const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
      Zero zero(parameters(Layers(model)), world, {stage, one_weight});
      const size_t used = world.rank() == 1 ? 5 : 3;
      run_microbatch(Layers(model).subspan(0, used), 0, 0, 2, net.width, rows);
      zero.finish();
      double largest = 0;
      for (const ParameterPtr& each : zero.shards())
        if (each->name == "layers.4.weight")
          for (const double g : each->grad.values()) largest = std::max(largest, std::abs(g));
      CHECK(largest > 0);
    });
}

TEST_CASE("mistakes are named") {
  const auto twice = [](Communicator& world) {
    const std::vector<LayerPtr> model = make_linear_net(net, {1, DType::f64});
    Zero zero(parameters(Layers(model)), world, {2, one_weight});
    for (int i = 0; i < 2; ++i)
      run_microbatch(Layers(model).subspan(4, 1), 0, 0, 2, net.width, rows);
  };
  CHECK_THROWS_WITH_AS(run_ranks(1, twice), doctest::Contains("layers.4.weight became final twice"),
                       Error);
  run_ranks(1, [](Communicator& world) {
    CHECK_THROWS_WITH_AS(Zero({}, world, {3}),
                         doctest::Contains("ZeRO stage 3: stages 1 and 2 are here"), Error);
  });
}
