#include "yotta/machine/roofline.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE("the roof: memory's slope up to the ridge, the peak after it") {
  const Roofline roof{100, 10};
  CHECK(roof.ridge() == 10);
  CHECK(roof.attainable(0) == 0);
  CHECK(roof.attainable(4) == 40);
  CHECK(roof.attainable(10) == 100);
  CHECK(roof.attainable(1000) == 100);
  CHECK(roof.seconds(1000, 10) == 10);  // compute-bound
  CHECK(roof.seconds(10, 1000) == 100);
  CHECK(roof.seconds(0, 0) == 0);
}

TEST_CASE("a rate below the roof and its time are two views of one limit") {
  const Roofline roof{7e12, 3e11};
  for (const double flops : {1e6, 1e9, 1e13})
    for (const double bytes : {1e5, 1e9})
      CHECK(flops / roof.seconds(flops, bytes) ==
            doctest::Approx(roof.attainable(flops / bytes)).epsilon(1e-12));
}

TEST_CASE("chips by type, and what they cannot do") {
  CHECK(roofline_of(chip_named("h100")).ridge() == doctest::Approx(295.34).epsilon(1e-4));
  CHECK(roofline_of(chip_named("h100"), DType::f32).ridge() == doctest::Approx(20));
  CHECK_THROWS_AS(roofline_of(chip_named("a100"), DType::fp8_e4m3), Error);
}

TEST_CASE("intensity by shape") {
  CHECK(dot_workload(1e6).intensity() == doctest::Approx(0.5).epsilon(1e-5));
  CHECK(dot_workload(1).flops == 1);
  CHECK(matvec_workload(4096, 4096).intensity() == doctest::Approx(1).epsilon(1e-3));
  CHECK(matvec_workload(4096, 4096).intensity() < 1);
  CHECK(matmul_workload(300, 300, 300).intensity() == doctest::Approx(100));
  CHECK(matmul_workload(2, 3, 5).intensity() == doctest::Approx(30.0 / (10 + 15 + 6)));
  CHECK(matmul_workload(2, 3, 5).flops == 60);
  CHECK(elementwise_workload(10, 3).bytes == 80);
  CHECK(elementwise_workload(10, 3).flops == 30);
}

TEST_CASE("the minimum batch is the one at which a matmul reaches the ridge") {
  for (const Chip& chip : known_chips) {
    const double ridge = roofline_of(chip).ridge();
    const auto D = int64_t{8192}, F = int64_t{28672};
    const double batch = minimum_batch(ridge, static_cast<double>(D), static_cast<double>(F));
    const auto rows = static_cast<int64_t>(std::ceil(batch));
    CHECK(batch > minimum_batch(ridge));
    CHECK(matmul_workload(rows, F, D).intensity() >= ridge);
    CHECK(matmul_workload(rows - 1, F, D).intensity() < ridge);
  }
  CHECK(minimum_batch(240, 1e9, 1e9) == doctest::Approx(240).epsilon(1e-5));
  CHECK(minimum_batch(240, 1e9, 1e9, 1) == doctest::Approx(120).epsilon(1e-5));  // int8 weights
  CHECK(std::isinf(minimum_batch(300, 256, 256)));                               // too narrow
}

TEST_CASE("peaks from units and clocks") {
  CHECK(sm_fma_flops_per_clock == 256);
  CHECK(sm_tensor_flops_per_clock == 4096);
  CHECK(peak_of(132, sm_tensor_flops_per_clock, 1.83e9) == doctest::Approx(989.4e12).epsilon(1e-3));
  CHECK(fma_register_bytes_per_flop == 8);
  CHECK(mma_register_bytes_per_flop == doctest::Approx(0.4375));
}
