// Stages are sums of their layers, and their peaks are found layer by layer.
#include "yotta/plan/stage_walk.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
// Saves 10 bytes, has 3 numbers, and borrows 4 bytes forward, 6 and 5 backward.
LayerFigures layer() {
  LayerFigures made;
  made.forward.computed = 1, made.input.computed = 2, made.weight.computed = 3;
  made.saved = 10, made.kept = 8, made.in = made.out = 2;
  made.forward_peak = 14, made.input_peak = 6, made.weight_peak = 5;
  made.growing_peak = 7, made.passing_peak = 9;
  made.weights = {{1}, {2}};
  return made;
}
}  // namespace

TEST_CASE("times, saved bytes and parameters of a stage are sums") {
  const LayerFigures one = layer();
  const StageFigures stage = stage_figures({{&one, 3}});
  CHECK(stage.forward.seconds() == 3);
  CHECK(stage.backward().seconds() == 15);
  CHECK(stage.saved == 30);
  CHECK(stage.kept == 24);
  CHECK(stage.parameters == 9);
}

TEST_CASE(
    "forward the last layer has the others' bytes beside it, backward the last is the first") {
  const LayerFigures one = layer();
  const StageFigures stage = stage_figures({{&one, 3}});
  CHECK(stage.forward_peak == 20 + 14);
  CHECK(stage.backward_peak == 6);
  CHECK(stage_figures({{&one, 1}}).forward_peak == 14);
}

TEST_CASE("gradients that are made in the first backward pass pile up in it") {
  const LayerFigures one = layer();
  LayerFigures light = layer();
  light.saved = light.kept = 0;
  StageExtras extras;
  extras.grows = extras.gradient = 100;
  const StageFigures stage = stage_figures({{&light, 3}}, extras);
  CHECK(stage.first_backward_peak >= 600);
  CHECK(stage.backward_peak < 100);
}

TEST_CASE("FSDP holds this unit and the next, and a sum that is under way") {
  const LayerFigures one = layer();
  StageExtras extras;
  extras.gathered = 1000;
  const StageFigures gathered = stage_figures({{&one, 3}}, extras);
  CHECK(gathered.forward_peak == 10 + 14 + 2 * 3000);
  extras.unreduced = 1e6, extras.gradient = 1e5;
  const StageFigures reduced = stage_figures({{&one, 3}}, extras);
  CHECK(reduced.carried == 3e6);
  CHECK(reduced.backward_peak > 3e6 + 3e5);
}
