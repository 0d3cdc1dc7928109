// Layouts of ranks with their tensors on Device::cuda, here the emulator's: the losses of the CPU.
#include "yotta/model/nd_parallel.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/text.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cuda_kernels.hpp"

using namespace yotta;

namespace {

std::vector<double> losses_on(Device device, const MeshShape& layout) {
  TransformerConfig config = gpt2_config(2, 8, 2, 6, 11);
  config.dtype = DType::f64;
  std::vector<double> losses;
  run_ranks(static_cast<int>(layout.ranks()), [&](Communicator& world) {
    Mesh mesh(world, layout);
    std::optional<DeviceScope> scope(device);
    NdParallel model(config, mesh, {});
    scope.reset();
    AdamW optimizer(parameters(model.stack()));
    Trainer trainer(model.stack(), optimizer, {.schedule = {0.02, 0.02, 0, 10}, .clip = 0.5},
                    model.hooks());
    std::vector<int32_t> tokens;
    for (int i = 0; i < 4 * 6; ++i) tokens.push_back(i * 5 % 11);
    const Tensor ids = Tensor::from<int32_t>(tokens, {4, 6}), targets = ids.clone();
    const Share mine = model.share(4);
    for (int64_t step = 0; step < 2; ++step) {
      std::vector<Microbatch> batches = model.microbatches(
          ids.rows(mine.begin, mine.end), targets.rows(mine.begin, mine.end), mine.begin);
      for (Microbatch& each : batches) {
        each.inputs = each.inputs.to(device);
        each.targets = each.targets.to(device);
      }
      const DeviceScope step_scope(device);  // what a step makes for itself
      const StepReport report = trainer.step(step, batches, 24);
      if (world.rank() == 0) losses.push_back(report.loss);
    }
    const std::vector<NamedTensor> weights = model.gather_weights();  // come to the host
    for (const NamedTensor& each : weights) CHECK(each.value.device() == Device::cpu);
    if (world.rank() == 0) losses.push_back(weights.at(1).value.item({0, 1}));
  });
  return losses;
}

void check_layout(const MeshShape& layout) {
  install_accelerator();
  install_kernels();
  install_course_matmul();
  const std::vector<double> here = losses_on(Device::cpu, layout),
                            there = losses_on(Device::cuda, layout);
  REQUIRE(here.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(std::abs(here[i] - there[i]) <= 1e-9);
}

}  // namespace

TEST_CASE("data-parallel ranks on cuda") { check_layout({.dp_replicate = 2}); }
TEST_CASE("sharded ranks on cuda") { check_layout({.dp_shard = 2}); }
TEST_CASE("pipeline stages on cuda") { check_layout({.pp = 2}); }
