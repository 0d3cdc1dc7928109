// Memory by formula: who holds what share of the states.
#include "yotta/plan/step_memory.hpp"

#include <doctest/doctest.h>

#include "plan/small_step.hpp"

using namespace yotta;

namespace {
MemoryParts memory(const MeshShape& shape, const NdOptions& options) {
  TransformerConfig config = llama_config(6, 512, 1536, 8, 4, 256, 1000);
  config.dtype = DType::bf16;
  PipelineOrders orders;
  return step_memory(
      StepStages(cluster_named("h100x8"), yotta_test::step_of(config, shape, options)), orders);
}
}  // namespace

TEST_CASE("2, 4 and 12 bytes per parameter; ZeRO-1 shares out the 12, FSDP all") {
  const auto P = static_cast<double>(parameters(llama_config(6, 512, 1536, 8, 4, 256, 1000)));
  NdOptions zero{.microbatches = 2};
  const MemoryParts ddp = memory({.dp_replicate = 4}, zero);
  CHECK(ddp.weights == 2 * P);
  CHECK(ddp.gradients == 4 * P);
  CHECK(ddp.optimizer == 12 * P);
  const MemoryParts fsdp = memory({.dp_shard = 4}, zero);
  CHECK(fsdp.states() == doctest::Approx(18 * P / 4).scale(0));
  zero.zero.stage = 1;
  CHECK(memory({.dp_replicate = 4}, zero).optimizer == 3 * P);
  CHECK(memory({.dp_replicate = 4}, zero).weights == 2 * P);
}

TEST_CASE("activations fall with recomputation and with smaller microbatches") {
  NdOptions options{.microbatches = 1};
  const double whole = memory({.dp_replicate = 2}, options).activations;
  options.checkpoint = {.what = Recompute::all};
  CHECK(memory({.dp_replicate = 2}, options).activations < whole);
  options = {.microbatches = 4};
  CHECK(memory({.dp_replicate = 2}, options).activations < whole);
}
