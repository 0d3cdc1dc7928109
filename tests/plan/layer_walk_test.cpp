// The pieces of which layers are made.
#include "yotta/plan/layer_walk.hpp"

#include <doctest/doctest.h>

#include "small_step.hpp"

using namespace yotta;
using yotta_test::small_step;

TEST_CASE("pieces hide behind matmuls that take longer than a hop, and show behind shorter ones") {
  NdOptions options;
  options.pieces = Pieces::one_way;
  const LayerSizes z = layer_sizes(small_step({.tp = 4}, options));
  const Chip chip = ideal_chip(1e300);
  const Efficiency all;
  PlanGroups groups;
  groups.tp = {4, {1, 0, 0}, 0};  // a hop takes a second
  const auto waits = [&](double matmuls) {
    LayerWalk walk(z, groups, StepWalk(chip, all));
    walk.gather_in_pieces(matmuls, z.C);
    walk.end_forward(0, 0);
    const LayerFigures figures = walk.end_weight();
    CHECK(figures.forward.computed == doctest::Approx(4 * matmuls).scale(0));
    return figures.forward.exposed[0];
  };
  CHECK(waits(2) == 0);
  CHECK(waits(0.5) == doctest::Approx(1.5).scale(0));  // 3 hops, half hidden
}

TEST_CASE("a gradient that is made stays or passes") {
  const LayerSizes z = layer_sizes(small_step({}, {}));
  const Chip chip = ideal_chip(1);
  const Efficiency all;
  const PlanGroups groups;
  LayerWalk walk(z, groups, StepWalk(chip, all));
  walk.ready(10);
  walk.ready(30);
  walk.ready(5);
  const LayerFigures figures = walk.end_weight();
  CHECK(figures.parameters() == 45);
  CHECK(figures.growing_peak == 4 * 45);
  CHECK(figures.passing_peak == 4 * 30);
}
