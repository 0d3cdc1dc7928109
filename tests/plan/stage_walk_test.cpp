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

TEST_CASE(
    "DDP's sums of all but experts, and of experts, each take scratch when a bucket is full") {
  LayerFigures one;
  one.weight_peak = 1;
  one.weights = {{10}, {20, true}};
  StageExtras extras;
  extras.gradient = 4, extras.scratch_after = 50, extras.sets[0].scratch = 1000;
  const auto peak = [&] { return stage_figures({{&one, 2}}, extras).first_backward_peak; };
  CHECK(peak() == 1 + 1000);  // the upper layer has 120 bytes
  extras.experts_apart = true;
  CHECK(peak() == 1);  // 40 bytes, and 80 of experts, which are summed over one rank
  extras.sets[1].scratch = 500;
  CHECK(peak() == 1 + 500);
  extras.sets[0].before = 11;
  CHECK(peak() == 1 + 1000 + 500);
}

TEST_CASE("ZeRO-2 beside experts: a bucket leaves while the other set's is open or travels") {
  LayerFigures one;
  one.weight_peak = 1;
  one.weights = {{1}, {2, true}};
  StageExtras extras;
  extras.gradient = 4, extras.bucket_bytes = 100, extras.experts_apart = true;
  // A bucket of n bytes over one rank: itself, its sum, and 2 n of scratch while it leaves.
  // 2 layers: experts' 16 bytes leave last, beside the 8 that travel with their sum.
  CHECK(stage_figures({{&one, 2}}, extras).backward_peak == 2 * 8 + 4 * 16);
  CHECK(stage_figures({{&one, 2}}, extras).carried == 2 * 8 + 2 * 16);
  // 1 layer: the same of 4 and 8.
  CHECK(stage_figures({{&one, 1}}, extras).backward_peak == 2 * 4 + 4 * 8);
  // With one more gradient that waits: 2 numbers.
  one.weights = {{1}, {2, true, false, 0, 2}};
  CHECK(stage_figures({{&one, 1}}, extras).backward_peak == 2 * 4 + 4 * 8 + 2 * 4);
}

TEST_CASE("ZeRO-2 where gradients come in another order than that of buckets: several are open") {
  LayerFigures one;
  one.weights = {
      {1, false, false, 1}, {1, false, false, 3}, {1, false, false, 0}, {1, false, false, 2}};
  StageExtras extras;
  extras.gradient = 4, extras.bucket_bytes = 8;  // two of two gradients each
  // The second opens first, and is full before the first. They leave one after the other: the first
  // with its sum and its scratch, beside the second.
  CHECK(stage_figures({{&one, 1}}, extras).backward_peak == 4 * 8 + 8);
  for (WeightReady& each : one.weights) each.order = 0;
  CHECK(stage_figures({{&one, 1}}, extras).backward_peak == 4 * 8);
}
