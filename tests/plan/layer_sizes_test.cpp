// Sizes of what a rank works on, as the axes of a layout cut them.
#include "yotta/plan/layer_sizes.hpp"

#include <doctest/doctest.h>

#include "small_step.hpp"

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
  CHECK(z.H == 2);
  CHECK(z.K == 1);
  CHECK(z.F == 384);
  CHECK(z.V == 250);
  CHECK(z.width == 2);
  CHECK(z.wide == 4);
  options.sequence_parallel = false;
  CHECK(layer_sizes(small_step({.tp = 4, .cp = 2, .dp_replicate = 4}, options)).n == 512);
}

TEST_CASE("a mixture: as many rows come as leave where ep divides the experts") {
  DescribedStep step = small_step({.tp = 2, .ep = 4});
  step.config.mixture.experts = 8, step.config.mixture.top_k = 2, step.config.mixture.shared = 1;
  const MixtureSizes x = layer_sizes(step).mixture;
  CHECK(x.held == 2);
  CHECK(x.m == 2 * layer_sizes(step).N);
  CHECK(x.M == x.m);
  CHECK(x.shared == 768);
  CHECK(x.sorts());
  step.config.mixture.experts = 6;  // two ranks hold two, two hold one
  CHECK(layer_sizes(step).mixture.held == 2);
  CHECK(layer_sizes(step).mixture.M > layer_sizes(step).mixture.m);
}
