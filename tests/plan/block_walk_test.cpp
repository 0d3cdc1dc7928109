// A block by formula: its saved bytes, its FLOPs, and what recomputation changes.
#include "yotta/plan/block_walk.hpp"

#include <doctest/doctest.h>

#include "yotta/nn/transformer_config.hpp"

using namespace yotta;

namespace {

struct Walked {
  LayerSizes z;
  LayerFigures block;
};
Walked walked(const TransformerConfig& config, int tp, const NdOptions& options = {}) {
  DescribedStep step;
  step.config = config, step.shape.tp = tp, step.options = options, step.batch = 2;
  static const Chip chip = ideal_chip(1);
  static const Efficiency all;
  Walked made{layer_sizes(step), {}};
  made.block = block_figures(made.z, plan_groups(switched(chip_named("h100"), 8), step.shape),
                             StepWalk(chip, all));
  return made;
}

}  // namespace

TEST_CASE("a block has its parameters, each once, in both dialects") {
  for (const TransformerConfig& config :
       {gpt2_config(2, 64, 4, 32, 100), llama_config(2, 64, 96, 4, 2, 32, 100)}) {
    const LayerFigures block = walked(config, 1).block;
    CHECK(block.parameters() == block_parameters(config));
    CHECK(block.kept > 0);
    CHECK(block.in == block.out);
  }
}

TEST_CASE("on an ideal chip forward and backward take the block's FLOPs") {
  TransformerConfig config = llama_config(1, 256, 768, 4, 4, 64, 100);
  const Walked one = walked(config, 1);
  const double tokens = 2 * 64, dense = 2 * tokens * static_cast<double>(block_parameters(config));
  const double scores = 2 * 2 * tokens * 64 / 2 * 256;
  CHECK(one.block.forward.seconds() == doctest::Approx(dense + scores).epsilon(0.03).scale(0));
  CHECK(one.block.input.seconds() + one.block.weight.seconds() ==
        doctest::Approx(2 * dense + 2.5 * scores).epsilon(0.03).scale(0));
}

TEST_CASE("recomputed: x is kept, and forward is run again") {
  const LayerFigures block = walked(llama_config(1, 64, 96, 4, 2, 32, 100), 1).block;
  const LayerFigures again = checkpointed_figures(block);
  CHECK(again.saved == again.in);
  CHECK(again.saved < block.saved);
  CHECK(again.weight.seconds() == 0);
  CHECK(again.input.seconds() ==
        doctest::Approx(block.forward.seconds() + block.input.seconds() + block.weight.seconds())
            .scale(0));
}

TEST_CASE("sequence parallelism keeps a tp-th of what it shares out") {
  const TransformerConfig config = llama_config(1, 64, 96, 4, 4, 32, 100);
  NdOptions shares;
  shares.sequence_parallel = true;
  const Walked whole = walked(config, 4), cut = walked(config, 4, shares);
  CHECK(cut.block.saved < whole.block.saved);
  CHECK(cut.block.in == whole.block.in / 4);
  CHECK(cut.block.weight.exposed[0] > whole.block.weight.exposed[0]);  // gathers again
}
