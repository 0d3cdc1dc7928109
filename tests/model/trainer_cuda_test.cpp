// The training step on Device::cuda, here by the emulator: the same losses and weights as on the
// CPU.
#include "yotta/model/trainer.hpp"

#include <doctest/doctest.h>

#include "yotta/device/cuda/strided_matmul.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;

namespace {

struct CudaRun {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> weights;
  int64_t live = 0;
};

// Some steps on a device: two microbatches per step, AdamW, clipping.
CudaRun run_on_device(Device device, const TransformerConfig& config) {
  RankContext rank;
  rank.device = device;
  const ContextScope scope(rank);
  CudaRun run;
  {
    Transformer model(config);
    AdamW optimizer(parameters(model.stack()));
    Trainer trainer(model.stack(), optimizer,
                    {.schedule = {0.02, 0.02, 0, 10}, .clip = 0.5, .seed = 3});
    std::vector<int32_t> tokens;
    for (int i = 0; i < 3 * 7; ++i) tokens.push_back(i * 5 % 11);
    const Tensor ids = Tensor::from<int32_t>(tokens, {3, 7});
    std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
    const Tensor targets = Tensor::from<int32_t>(tokens, {3, 7});
    for (int64_t step = 0; step < 3; ++step) {
      const StepReport report = trainer.step(step, microbatches(ids, targets, 2), 21);
      run.losses.push_back(report.loss);
      run.norms.push_back(report.gradient_norm);
    }
    for (const ParameterPtr& each : parameters(model.stack())) {
      CHECK(each->value.device() == device);
      run.weights.push_back(each->value.values());
    }
    run.live = rank.ledger.memory()->live();
  }
  CHECK(rank.ledger.memory()->live() == 0);
  return run;
}

void check_cuda_training(const TransformerConfig& config, double tolerance) {
  install_accelerator();
  install_kernels();
  install_course_matmul();
  const CudaRun here = run_on_device(Device::cpu, config),
                there = run_on_device(Device::cuda, config);
  CHECK(there.live == here.live);
  CHECK(here.losses[2] < here.losses[0]);
  const auto check_near = [&](const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= worst)) worst = std::abs(a[i] - b[i]);
    CHECK(worst <= tolerance);
  };
  check_near(there.losses, here.losses);
  check_near(there.norms, here.norms);
  for (size_t i = 0; i < here.weights.size(); ++i) check_near(there.weights[i], here.weights[i]);
}

}  // namespace

TEST_CASE("GPT-2's dialect on cuda: losses, norms and weights of the CPU, with dropout") {
  TransformerConfig config = gpt2_config(1, 16, 2, 7, 11);
  config.dtype = DType::f64;
  config.dropout = 0.1;
  check_cuda_training(config,
                      1e-8);  // a key's bias has no gradient but rounding, which AdamW magnifies
}

TEST_CASE("Llama's dialect on cuda, plain attention with dropout of probabilities") {
  TransformerConfig config = llama_config(1, 16, 24, 4, 2, 7, 11);
  config.dtype = DType::f64;
  check_cuda_training(config, 1e-8);
  config.attention = AttentionKind::plain;
  config.attention_dropout = 0.2;
  check_cuda_training(config, 1e-8);
}

TEST_CASE("f32 and bf16 weights on cuda") {
  TransformerConfig config = gpt2_config(1, 16, 2, 7, 11);
  check_cuda_training(config, 2e-3);
  config.dtype = DType::bf16;
  check_cuda_training(config, 2e-2);
}
