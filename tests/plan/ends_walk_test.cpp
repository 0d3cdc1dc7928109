// The embedding and the head by formula.
#include "yotta/plan/ends_walk.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("a tied table has one gradient: it begins in the head and ends in the embedding") {
  DescribedStep step;
  step.config = gpt2_config(2, 64, 4, 32, 100);
  const Chip chip = ideal_chip(1);
  const Efficiency all;
  const LayerSizes z = layer_sizes(step);
  const PlanGroups groups;
  const StepWalk walk(chip, all);
  const LayerFigures first = embedding_figures(step.config, z, groups, walk, true);
  const LayerFigures last = head_figures(z, groups, walk, true);
  CHECK(first.parameters() == 100 * 64 + 32 * 64);
  CHECK(last.parameters() == 2 * 64);
  CHECK(last.table == 100 * 64);
  CHECK(first.table == -last.table);
  CHECK(head_figures(z, groups, walk, false).parameters() == 100 * 64 + 2 * 64);
}

TEST_CASE("the head keeps the gradient of its logits, a tp-th of the vocabulary's") {
  DescribedStep step;
  step.config = llama_config(2, 64, 96, 4, 4, 32, 1000);
  step.shape.tp = 4;
  const Chip chip = ideal_chip(1);
  const Efficiency all;
  const LayerSizes z = layer_sizes(step);
  const PlanGroups groups = plan_groups(switched(chip_named("h100"), 8), step.shape);
  const LayerFigures head = head_figures(z, groups, StepWalk(chip, all), false);
  const double tokens = 32, logits = 4 * tokens * 250, stream = 4 * tokens * 64;
  CHECK(head.saved == logits + 2 * stream + 4 * tokens);  // x, its norm, a statistic of each row
  CHECK(head.out == 0);
  CHECK(head.forward.exposed[0] > 0);
}
