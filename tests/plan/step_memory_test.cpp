// Memory by formula: who holds what share of the states.
#include "yotta/plan/step_memory.hpp"

#include <doctest/doctest.h>

#include "plan/planned_steps.hpp"
#include "yotta/core/random.hpp"
#include "yotta/plan/layout_space.hpp"

using namespace yotta;

namespace {
MemoryParts memory(const MeshShape& shape, const NdOptions& options) {
  TransformerConfig config = llama_config(6, 512, 1536, 8, 4, 256, 1000);
  config.dtype = DType::bf16;
  LayerRecords layers;
  PipelineOrders orders;
  const DescribedStep step = yotta_test::step_of(config, shape, options);
  return step_memory(StepStages(cluster_named("h100x8"), step, layers), orders);
}
}  // namespace

TEST_CASE("2, 4 and 12 bytes per parameter; ZeRO-1 shares out the 12, ZeRO-2 the 4 too, FSDP all") {
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
  CHECK(memory({.dp_replicate = 4}, zero).gradients == 4 * P);
  zero.zero.stage = 2;
  CHECK(memory({.dp_replicate = 4}, zero).gradients == doctest::Approx(P).scale(0));
  CHECK(memory({.dp_replicate = 4}, zero).optimizer == doctest::Approx(3 * P).scale(0));
}

TEST_CASE("activations fall with recomputation and with smaller microbatches") {
  NdOptions options{.microbatches = 1};
  const double whole = memory({.dp_replicate = 2}, options).activations;
  options.checkpoint = {.what = Recompute::all};
  CHECK(memory({.dp_replicate = 2}, options).activations < whole);
  options = {.microbatches = 4};
  CHECK(memory({.dp_replicate = 2}, options).activations < whole);
}

TEST_CASE("the fullest rank is found without walking through all of them") {
  TransformerConfig mixture = llama_config(8, 512, 1024, 16, 8, 1024, 32000);
  mixture.mixture.experts = 8;
  const Random random(5, "fullest");
  LayerRecords layers;
  PipelineOrders orders;
  uint64_t drawn = 0;
  for (TransformerConfig config : {llama_config(11, 512, 1024, 16, 8, 1024, 32000), mixture}) {
    config.dtype = DType::bf16;
    const PlanRequest request{config, cluster_named("h100x16"), 1 << 16, 1024};
    const std::vector<Layout> all = layout_space(request).layouts;
    for (int i = 0; i < 150; ++i) {
      const Layout& layout = all[random.below(drawn++, static_cast<uint32_t>(all.size()))];
      const StepStages stages(request.cluster, described(request, layout), layers);
      double fullest = 0;
      for (int rank = 0; rank < stages.ranks(); ++rank)
        fullest = std::max(fullest, rank_memory(stages, orders, rank).bytes());
      CAPTURE(text_of(layout));
      REQUIRE(step_memory(stages, orders).bytes() == fullest);
    }
  }
}
