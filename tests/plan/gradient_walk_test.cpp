// DDP's and FSDP's time by formula, against the closed forms for equal units.
#include "yotta/plan/gradient_walk.hpp"

#include <doctest/doctest.h>

#include "yotta/parallel/fsdp_cost.hpp"

using namespace yotta;

namespace {

struct Units {
  LayerFigures layer;
  PlanUnit unit;

  Units(double forward, double backward, double gather, double reduce) {
    layer.forward.computed = forward, layer.input.computed = backward / 2;
    layer.weight.computed = backward / 2;
    layer.weights = {{1000}};
    unit = {&layer, gather, reduce, 0.01, gather, reduce, {{1000}}};
  }
  std::vector<std::vector<const PlanUnit*>> stack(size_t count) const {
    return {std::vector<const PlanUnit*>(count, &unit)};
  }
};

}  // namespace

TEST_CASE("FSDP of equal units takes what fsdp_cost.hpp says") {
  const DataAxes axes{{4, {}, 0}, {}, 1, 4, {}, {}};
  for (const auto& [g, r] : {std::pair{0.5, 0.8}, std::pair{3.0, 1.0}, std::pair{0.1, 5.0}}) {
    const Units units(1, 2, g, r);
    GradientWalk walk(axes, units.stack(6));
    double now = walk.run(0, PipelineOp::F, 0, false);
    now = walk.finish(walk.run(0, PipelineOp::B, now, true));
    CHECK(now ==
          doctest::Approx(fsdp_seconds(6, {1, 2, g, r, 0.01}, true, false)).epsilon(0.02).scale(0));
  }
}

TEST_CASE("DDP shows what is left when backward ends, and only the last microbatch sends") {
  const DataAxes axes{{}, {2, {1, 0, 0}, 0}, 4000, 4, {}, {}};  // 2 s a bucket of a unit
  const Units units(1, 4, 0, 0);
  GradientWalk walk(axes, units.stack(3));
  CHECK(walk.finish(walk.run(0, PipelineOp::B, 0, false)) == 12);
  GradientWalk last(axes, units.stack(3));
  CHECK(last.finish(last.run(0, PipelineOp::B, 0, true)) ==
        doctest::Approx(13).scale(0));  // doubling: 1 s
  CHECK(last.extra().exposed[3] == doctest::Approx(1).scale(0));
}

TEST_CASE("ZeRO-2 sums a bucket beside the next one, in every microbatch") {
  DataAxes axes{{}, {2, {1, 0, 0}, 0}, 4000, 4, {}, {}};  // 1 s a bucket of a unit
  axes.scatters = true, axes.add_kernel = 0.25;
  const Units units(1, 4, 0, 0);
  GradientWalk walk(axes, units.stack(3));
  double now = 0;
  for (const bool last : {false, true}) {
    now = walk.run(0, PipelineOp::F, now, last);
    now = walk.run(0, PipelineOp::B, now, last);
  }
  // F 3, B 12, two sums added meanwhile, the last one waited for and added: twice.
  CHECK(walk.finish(now) == doctest::Approx(2 * (3 + 12 + 3 * 0.25 + 1)).scale(0));
  CHECK(walk.extra().exposed[3] == doctest::Approx(2).scale(0));
  CHECK(walk.extra().computed == doctest::Approx(1.5).scale(0));
}

TEST_CASE("who shares the port of a gather is slowed, and slows it") {
  DataAxes axes{{4, {}, 0}, {}, 1, 4, {}, {}};
  Units units(1, 2, 1, 0);
  units.layer.forward.exposed[0] = 1,
  units.layer.forward.sent[0] = units.layer.forward.slowed[0] = 1;
  const auto forward = [&] {
    GradientWalk walk(axes, units.stack(4));
    return walk.run(0, PipelineOp::F, 0, false);
  };
  const double alone = forward();
  axes.beside_shards[0] = true;
  CHECK(forward() > alone);
}

TEST_CASE("units that are moved in turns add their time, and nothing runs beside it") {
  const DataAxes axes{{4, {}, 0}, {}, 1, 4, {}, {}};
  Units units(1, 2, 0, 0);
  units.unit.add = 0, units.unit.forward_turn = 0.5, units.unit.backward_turn = 3;
  GradientWalk walk(axes, units.stack(4));
  const double forward = walk.run(0, PipelineOp::F, 0, false);
  CHECK(forward == doctest::Approx(4 * (1 + 0.5)).scale(0));
  CHECK(walk.finish(walk.run(0, PipelineOp::B, forward, true)) ==
        doctest::Approx(forward + 4 * (2 + 3)).scale(0));
  CHECK(walk.extra().exposed[3] == doctest::Approx(4 * 3.5).scale(0));
}
