// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_hopper_rungs.hpp"

#include <doctest/doctest.h>

#include "device/hopper_cases.hpp"

using namespace yotta;

TEST_CASE("each rung of the table launches its kernel" * doctest::skip(!hopper_is_here())) {
  const Bf16Problem problem(140, 136, 200);
  for (const TensorCoreRung& rung : hopper_rungs<HopperTiles<128, 3, 2>>) {
    CAPTURE(rung.name);
    check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
      rung.run(a, b, c, problem.m, problem.n, problem.k, nullptr);
    }));
  }
}

TEST_CASE("what the table says of tiles: only 128 x 256 leaves shared memory time for the peak") {
  CHECK(hopper_costs<HopperTiles<128, 4, 1>>[0].wavefronts == 1.5);
  CHECK(hopper_costs<HopperTiles<256, 4, 1>>[0].wavefronts == 1.25);
  CHECK(hopper_costs<HopperTiles<256, 4, 2>>[2].wavefronts == 1.0);
  CHECK(hopper_costs<HopperTiles<256, 4, 2>>[2].attainable() == 1.0);
  CHECK(hopper_costs<HopperTiles<256, 4, 2>>[2].sectors == 1.5);
  CHECK(hopper_costs<HopperTiles<256, 4, 2>>[4].sectors == 1.0);
}
