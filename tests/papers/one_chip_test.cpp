// What lectures and datasheets print of one chip: peaks, ridges, intensities, amounts of work.
// Where a source contradicts itself, the consistent figure is tested and the slip is named.
#include <doctest/doctest.h>

#include "yotta/core/numbers.hpp"
#include "yotta/device/matmul_rungs.hpp"
#include "yotta/machine/roofline.hpp"

using namespace yotta;

TEST_CASE("H100: 132 SMs of 128 FMA lanes and 4 tensor cores make the datasheet's dense peak") {
  CHECK(sm_fma_flops_per_clock == 256);
  CHECK(matmul_flops(16, 8, 4) == 1024);  // a tensor core, a clock
  CHECK(sm_tensor_flops_per_clock == 4096);
  CHECK(peak_of(132, sm_tensor_flops_per_clock, 1.83e9) ==
        doctest::Approx(chip_named("h100").bf16).epsilon(1e-4));
}

TEST_CASE("cluster of 24,576 H100: cores and dense rate") {
  CHECK(24'576 * 132.0 * 128 == doctest::Approx(415e6).epsilon(1e-3));
  CHECK(24'576 * 132.0 * 4 == doctest::Approx(13e6).epsilon(1e-2));
  CHECK(24'576 * chip_named("h100").bf16 == doctest::Approx(24e18).epsilon(0.02));
  CHECK(24'576 * chip_named("h100").memory ==
        doctest::Approx(1.97e15).epsilon(1e-2));  // printed: 1.8 PB
}

TEST_CASE("A100: a fused x*2 of 10 TFLOP/s and 2 TB/s costs nothing up to 40 times, twice at 80") {
  const Roofline a100{10e12, 2e12};
  const auto seconds = [&](double times) {
    const Workload work = elementwise_workload(1e6, times);
    return a100.seconds(work.flops, work.bytes);
  };
  CHECK(seconds(1) == doctest::Approx(seconds(40)));
  CHECK(seconds(41) > seconds(40));
  CHECK(seconds(80) == doctest::Approx(2 * seconds(1)));
}

TEST_CASE("minimum batch: 1979/3.35 = 590.7 is of the sparse rate, the dense ridge is 295.3") {
  CHECK(h100_sheet.tflops / h100_sheet.tb_per_s == doctest::Approx(590.7).epsilon(1e-4));
  CHECK(roofline_of(chip_named("h100")).ridge() == doctest::Approx(295.3).epsilon(1e-3));
  CHECK(minimum_batch(roofline_of(chip_named("h100")).ridge()) ==
        doctest::Approx(295.3).epsilon(1e-3));
}

TEST_CASE("intensity: dot product about 1/2, matmul mnp/(mp + np + mn), in bf16") {
  CHECK(dot_workload(1e9).intensity() == doctest::Approx(0.5));
  for (const auto& [m, n, p] :
       {std::array<int64_t, 3>{64, 128, 32}, {1, 4096, 4096}, {8192, 8192, 8192}})
    CHECK(matmul_workload(m, n, p).intensity() ==
          doctest::Approx(static_cast<double>(m * n * p) /
                          static_cast<double>(m * p + n * p + m * n)));
}

TEST_CASE("hardware table: dense bf16 peaks, memory, and the ridges that follow") {
  struct Row {
    const char* chip;
    double teraflops, terabytes, ridge;
  };
  for (const Row& row : {Row{"a100", 312, 2.0, 156}, Row{"h100", 989.4, 3.35, 295.3},
                         Row{"h100-pcie", 756, 2.0, 378}, Row{"h200", 989, 4.8, 206.0},
                         Row{"b200", 2250, 8.0, 281.3}, Row{"v5e", 197, 0.82, 240.2},
                         Row{"v5p", 459, 2.765, 166.0}, Row{"v6e", 918, 1.638, 560.4}}) {
    const Roofline roof = roofline_of(chip_named(row.chip));
    CHECK(roof.peak == doctest::Approx(row.teraflops * 1e12));
    CHECK(roof.bandwidth == doctest::Approx(row.terabytes * 1e12));
    CHECK(roof.ridge() == doctest::Approx(row.ridge).epsilon(1e-3));
  }
}

TEST_CASE("amounts of work: GPT-3, Llama 3 405B, and years on one TPU v6e") {
  const double year = 365 * 86'400.0, trillium = chip_named("v6e").bf16;
  CHECK(pf_days(5.24e23) == doctest::Approx(6065).epsilon(1e-4));     // printed: 6,064
  CHECK(pf_days(3.79e25) == doctest::Approx(438'657).epsilon(1e-5));  // printed: 438,750,
  CHECK(pf_days(training_flops(405e9, 15.6e12)) ==
        doctest::Approx(438'750));  // from unrounded FLOPs
  CHECK(training_seconds(5.24e23, 1, trillium, 1) / year == doctest::Approx(18.1).epsilon(1e-3));
  CHECK(training_seconds(3.79e25, 1, trillium, 1) / year == doctest::Approx(1309).epsilon(1e-3));
  // 5.24e23 counts all 499e9 tokens of the data set; GPT-3 saw 300e9.
  CHECK(training_flops(175e9, 499e9) == doctest::Approx(5.24e23).epsilon(1e-3));
  CHECK(training_flops(175e9, 300e9) == doctest::Approx(3.15e23));
}

TEST_CASE("TPU v5p: 6.3e24 FLOP at 50% on 18,823 chips take 17 days") {
  CHECK(training_seconds(6.3e24, 18'823, chip_named("v5p").bf16, 0.5) / 86'400 ==
        doctest::Approx(16.9).epsilon(1e-2));
}

TEST_CASE("matmul ladder of an RTX A6000 (Boehm 2022): each rung is faster, as the counts allow") {
  const double cublas = 23'250, peak = 38'700;
  CHECK(matmul_rungs.back().a6000_gflops / cublas == doctest::Approx(0.937).epsilon(1e-3));
  double before = 0;
  for (const MatmulRung& rung : matmul_rungs) {
    if (rung.a6000_gflops == 0) continue;  // the published ladder has no such rung
    CHECK(rung.a6000_gflops > before);
    before = rung.a6000_gflops;
    // The compiler joins the register tile's neighbouring loads, so that it beats the count as
    // written.
    if (std::string_view(rung.name) != "register tile")
      CHECK(rung.a6000_gflops < rung.attainable() * peak);
  }
  CHECK(matmul_rungs[1].a6000_gflops / matmul_rungs[0].a6000_gflops ==
        doctest::Approx(matmul_rungs[0].sectors / matmul_rungs[1].sectors).epsilon(0.03));
}
