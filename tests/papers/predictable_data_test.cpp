// He (2024), Strangely, Matrix Multiplications on GPUs Run Faster When Given "Predictable" Data!:
// bf16 on an A100. And Gregersen, Patel, Choukse (2024), Input-Dependent Power Usage in GPUs.
#include <doctest/doctest.h>

#include "support/near.hpp"
#include "yotta/machine/toggle_power.hpp"

using namespace yotta;
using yotta_test::near;

TEST_CASE("He 2024: zeros 295, uniform 268 and normal 257 TFLOP/s; only uniform is not fitted") {
  const PowerModel model;
  const auto tflops = [&](DataKind kind) {
    return 1e-12 * model.flops(toggles_of(kind, 64).all());
  };
  CHECK(tflops(DataKind::zeros) == 295);
  CHECK(tflops(DataKind::normal) == near(257).epsilon(0.01));
  CHECK(tflops(DataKind::uniform) == near(268).epsilon(0.03));
  CHECK(tflops(DataKind::uniform) > tflops(DataKind::normal) + 2);
}

TEST_CASE(
    "Gregersen 2024: sparse and sorted numbers need less power; data change it by almost 40%") {
  const PowerModel model;
  const auto watts = [&](DataKind kind) { return model.demand(toggles_of(kind, 64).all()); };
  const double normal = watts(DataKind::normal);
  CHECK(watts(DataKind::zeros) / normal == near(0.6).epsilon(0.02));
  CHECK(watts(DataKind::sparse) < 0.9 * normal);
  CHECK(watts(DataKind::sorted) < 0.9 * normal);
  CHECK(watts(DataKind::zeros) < watts(DataKind::sparse));
}
