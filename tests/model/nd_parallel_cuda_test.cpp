// Layouts of ranks with their tensors on Device::cuda, here the emulator's: the losses and weights
// of one rank on the CPU.
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/text.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/parallel/cuda/parallel_kernels.hpp"

using namespace yotta;

namespace {

constexpr int64_t B = 4, T = 8, V = 12;

struct CudaLayoutRun {
  std::vector<double> losses;
  std::vector<std::vector<double>> weights;  // the serial model's, whole
};

// Two steps of two microbatches, AdamW and clipping. AdamW makes a whole step, up or down, of a
// gradient that is nothing but rounding. In bf16 that is frequent, so there epsilon is as large as
// gradients, and a step is in proportion to them; its rate makes it as long as the others'.
CudaLayoutRun train_layout(Device device, const TransformerConfig& config, const MeshShape& layout,
                           const NdOptions& options) {
  CudaLayoutRun run;
  run_ranks(static_cast<int>(layout.ranks()), [&](Communicator& world) {
    Mesh mesh(world, layout);
    std::optional<DeviceScope> scope(device);
    NdParallel model(config, mesh, options);
    const bool is_bf16 = config.dtype == DType::bf16;
    AdamW optimizer(parameters(model.stack()), {.epsilon = is_bf16 ? 0.1 : 1e-8});
    const double rate = is_bf16 ? 0.2 : 0.02;
    Trainer trainer(model.stack(), optimizer, {.schedule = {rate, rate, 0, 10}, .clip = 0.5},
                    model.hooks());
    std::vector<int32_t> tokens;
    for (int i = 0; i < B * T; ++i) tokens.push_back(static_cast<int32_t>(i * 5 % V));
    const Tensor ids = Tensor::from<int32_t>(tokens, {B, T}).to(device), targets = ids.clone();
    const BatchShard mine = model.share(B);
    for (int64_t step = 0; step < 2; ++step) {
      const StepReport report =
          trainer.step(step,
                       model.microbatches(ids.rows(mine.begin, mine.end),
                                          targets.rows(mine.begin, mine.end), mine.begin),
                       B * T);
      if (world.rank() == 0) run.losses.push_back(report.loss);
    }
    scope.reset();
    for (const ParameterPtr& each : parameters(model.stack()))
      if (each->value.device() != device) fail(Where::current(), "{} moved", each->name);
    for (const NamedTensor& each : model.gather_weights()) {  // come to the host
      if (each.value.device() != Device::cpu) fail(Where::current(), "{} stayed", each.name);
      if (world.rank() == 0) run.weights.push_back(each.value.values());
    }
  });
  return run;
}

void check_layout(TransformerConfig config, const MeshShape& layout, NdOptions options = {},
                  double tolerance = 1e-8) {
  install_accelerator();
  install_all_kernels();
  install_course_matmul();
  if (tolerance <= 1e-8) config.dtype = DType::f64;
  options.microbatches = 2;
  const CudaLayoutRun serial = train_layout(Device::cpu, config, {}, options),
                      there = train_layout(Device::cuda, config, layout, options);
  const auto farthest = [](const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= worst)) worst = std::abs(a[i] - b[i]);
    return worst;
  };
  CHECK(farthest(serial.losses, there.losses) <= tolerance);
  REQUIRE(serial.weights.size() == there.weights.size());
  double worst = 0;
  for (size_t i = 0; i < serial.weights.size(); ++i)
    worst = std::max(worst, farthest(serial.weights[i], there.weights[i]));
  CHECK(worst <= tolerance);
}

// Both dialects, without the biases whose gradients are only rounding.
TransformerConfig small_llama(int64_t layers) { return llama_config(layers, 8, 12, 4, 2, T, V); }
TransformerConfig small_gpt2() {
  TransformerConfig config = gpt2_config(1, 8, 2, T, V);
  config.dropout = 0.1;
  return config;
}

}  // namespace

TEST_CASE("data-parallel ranks on cuda") { check_layout(small_llama(1), {.dp_replicate = 2}); }
TEST_CASE("sharded ranks on cuda") { check_layout(small_llama(1), {.dp_shard = 2}); }
TEST_CASE("pipeline stages on cuda") { check_layout(small_llama(2), {.pp = 2}); }
TEST_CASE("tensor-parallel ranks on cuda: heads, widths, the vocabulary and its loss") {
  check_layout(small_llama(1), {.tp = 2});
  check_layout(small_gpt2(), {.tp = 2});  // tied, with dropout
}
TEST_CASE("context-parallel ranks on cuda: the ring") {
  check_layout(small_llama(1), {.cp = 2});
  check_layout(small_gpt2(), {.cp = 2}, {.checkpoint = {Recompute::all}});
}
TEST_CASE("tensor and context parallelism on cuda together, with checkpoints and shards") {
  check_layout(small_llama(1), {.tp = 2, .cp = 2, .dp_shard = 2}, {.checkpoint = {Recompute::all}});
}
TEST_CASE("bf16 weights on tensor- and context-parallel ranks on cuda") {
  TransformerConfig config = small_llama(1);
  config.dtype = DType::bf16;
  check_layout(config, {.tp = 2, .cp = 2}, {}, 1e-2);
}
