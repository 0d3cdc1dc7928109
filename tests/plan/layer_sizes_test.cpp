// Sizes of what a rank works on, as the axes of a layout cut them.
#include "yotta/plan/layer_sizes.hpp"

#include <doctest/doctest.h>

#include "plan/planned_steps.hpp"

using namespace yotta;
using yotta_test::small_step;

TEST_CASE("what a rank works on is its share along every axis") {
  NdOptions options{.microbatches = 2};
  options.sequence_parallel = true;
  const LayerSizes z = layer_sizes(small_step({.tp = 4, .cp = 2, .dp_replicate = 4}, options));
  CHECK(z.B == 4);
  CHECK(z.T == 128);
  CHECK(z.N == 512);
  CHECK(z.n == 128);
  CHECK(z.V == 250);
  CHECK(z.width == 2);
  CHECK(z.wide == 4);
  options.sequence_parallel = false;
  CHECK(layer_sizes(small_step({.tp = 4, .cp = 2, .dp_replicate = 4}, options)).n == 512);
}
