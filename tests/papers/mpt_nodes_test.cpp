// MosaicML, llm-foundry, scripts/train/benchmarking/README.md: MPT-13B under FSDP over all GPUs, 2
// sequences of 2048 a GPU, H100 80 GB in nodes of 8 with 400 Gb/s a GPU. From 8 to 64 GPUs a step
// takes as long as before, since all cards of a node are at work.
#include <doctest/doctest.h>

#include "yotta/plan/step_estimate.hpp"

using namespace yotta;

namespace {
double seconds_on(int gpus) {
  DescribedStep step;
  step.config = gpt2_config(40, 5120, 40, 2048, 50368);
  step.config.dtype = DType::bf16;
  step.shape = {.dp_shard = gpus};
  step.batch = 2 * gpus;
  step.efficiency = h100_kernels;
  return estimate_step(cluster_named(fmt::format("h100x{}", gpus)), step).seconds;
}
}  // namespace

TEST_CASE("MPT-13B from 8 to 64 H100: a step costs 1.00 times as much, as published") {
  const double node = seconds_on(8);
  CHECK(seconds_on(64) / node == doctest::Approx(1.00).epsilon(0.05).scale(0));
  CHECK(seconds_on(64) / seconds_on(16) ==
        doctest::Approx(0.85331 / 0.85915).epsilon(0.05).scale(0));
}
