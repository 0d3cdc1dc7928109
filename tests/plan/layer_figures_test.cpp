// What a layer costs, as numbers that can be added up.
#include "yotta/plan/layer_figures.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("parts add up, and so many times a part is so many times all of it") {
  PartTime part;
  part.computed = 2, part[Exposed::cp] = 3;
  part.sent[1] = 4, part.slowed[1] = 5;
  PartTime sum = 2.0 * part;
  sum += part;
  CHECK(sum.computed == 6);
  CHECK(sum.seconds() == 15);
  CHECK(sum.sent[1] == 12);
  CHECK(sum.slowed[1] == 15);
}

TEST_CASE("parameters are counted, and those of experts apart") {
  LayerFigures layer;
  layer.weights = {{3}, {5, true}, {7, false, true}};
  CHECK(layer.parameters() == 15);
  CHECK(layer.experts() == 5);
}

TEST_CASE("operators that run again: fewer bytes stay, more seconds in I") {
  LayerFigures block;
  block.saved = 100, block.input_peak = 10, block.operators.computed = 3;
  block.operators_kept = 60;
  const LayerFigures once = operators_again(block);
  CHECK(once.saved == 60);
  CHECK(once.input_peak == 50);
  CHECK(once.input.computed == 3);
  block.operators_kept = 120;
  CHECK(operators_again(block).saved == 100);
}
