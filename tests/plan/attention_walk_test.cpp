// Attention by formula on a rank of cp.
#include "yotta/plan/attention_walk.hpp"

#include <doctest/doctest.h>

#include "yotta/parallel/ring_attention.hpp"

using namespace yotta;

namespace {

DescribedStep step_of(int cp, ContextParallel context) {
  DescribedStep step;
  step.config = llama_config(2, 512, 1024, 8, 8, 256, 100);
  step.config.dtype = DType::bf16;
  step.shape.cp = cp, step.options.context = context, step.batch = 2;
  return step;
}

PartTime forward(const DescribedStep& step, double flops) {
  const Chip chip = ideal_chip(flops);
  const Efficiency all;
  StepWalk walk(chip, all);
  const LayerSizes z = layer_sizes(step);
  attend(z, plan_groups(switched(chip_named("h100"), 8), step.shape).cp, walk);
  return walk.time();
}

}  // namespace

TEST_CASE("a ring's ranks compute a cp-th each, and hide their hops behind slow chips only") {
  const double whole = forward(step_of(1, ContextParallel::ring), 1).computed;
  const PartTime part = forward(step_of(4, ContextParallel::ring), 1);
  CHECK(part.computed == doctest::Approx(whole / 4).epsilon(0.03).scale(0));  // and merges
  CHECK(part.exposed[1] == 0);
  CHECK(forward(step_of(4, ContextParallel::ring), 1e18).exposed[1] > 0);
  CHECK(part.sent[1] > 0);
}

TEST_CASE("Ulysses waits for its exchanges, however slow the chip is") {
  const PartTime part = forward(step_of(4, ContextParallel::ulysses), 1);
  CHECK(part.exposed[1] > 0);
  CHECK(part.exposed[1] == forward(step_of(4, ContextParallel::ulysses), 1e18).exposed[1]);
}

TEST_CASE("backward leaves the gradients of q, k and v in place of what forward kept") {
  const Chip chip = ideal_chip(1);
  const Efficiency all;
  for (const int cp : {1, 4}) {
    const DescribedStep step = step_of(cp, ContextParallel::ring);
    const LayerSizes z = layer_sizes(step);
    const PlanGroup group = plan_groups(switched(chip_named("h100"), 8), step.shape).cp;
    StepWalk walk(chip, all);
    attend(z, group, walk);
    const double o = walk.live();
    attend_back(z, group, walk);
    CHECK(walk.live() < o);
    CHECK(walk.peak() > o);
  }
}
