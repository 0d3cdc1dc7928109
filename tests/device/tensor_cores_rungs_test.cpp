// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_rungs.hpp"

#include <doctest/doctest.h>

#include "support/bf16_matmul.hpp"

using namespace yotta;

namespace {

using Small = Tiles<64, 64, 32, 32, 32>;
using Large = Tiles<128, 256, 32, 64, 64>;

template <class T>
std::vector<double> wavefronts() {
  std::vector<double> counts;
  for (const TensorCoreCost& rung : tensor_core_costs<T>) counts.push_back(rung.wavefronts);
  return counts;
}

}  // namespace

TEST_CASE("every rung computes C = A B") {
  for (const auto& [m, n, k] : {MatmulSize{70, 130, 48}, {64, 64, 64}, {3, 5, 7}}) {
    const Bf16Problem problem(m, n, k);
    for (const TensorCoreRung& rung : tensor_core_rungs<Small>) {
      CAPTURE(rung.name);
      check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
        rung.run(a, b, c, problem.m, problem.n, problem.k, nullptr);
      }));
    }
  }
}

TEST_CASE("passes through the banks, by hand") {
  CHECK(bank_passes(std::array{0, 1, 2, 31}) == 1);
  CHECK(bank_passes(std::array{5, 5, 5, 5}) == 1);  // one word for all
  CHECK(bank_passes(std::array{0, 32, 64, 64}) == 3);
  CHECK(ldmatrix_passes<32, Rows::plain>() == 16);  // 64-byte rows: 4 phases of 4 passes
  CHECK(ldmatrix_passes<64, Rows::plain>() == 32);
  CHECK(ldmatrix_passes<8, Rows::plain>() == 4);
  CHECK(ldmatrix_passes<32, Rows::swizzled>() == 4);
  CHECK(ldmatrix_passes<128, Rows::swizzled>() == 4);
  CHECK(word_passes_b<64, Rows::plain>() == 32);
}

TEST_CASE("what each rung asks for an mma: swizzling divides the passes by four and more") {
  using Wavefronts = std::vector<double>;
  CHECK(wavefronts<Small>() == Wavefronts{0, 0, 13, 13, 3, 3});
  CHECK(wavefronts<Large>() == Wavefronts{0, 0, 6.375, 6.375, 1.375, 1.375});
  CHECK(read_wavefronts<Small, Loads::ldmatrix, Rows::swizzled>() == 2);
  CHECK(read_wavefronts<Large, Loads::ldmatrix, Rows::swizzled>() == 1);
  CHECK(tile_sectors<Large>() == 1.5);
}

TEST_CASE("the roof of a rung, on an H100 and on an A100") {
  const auto& rungs = tensor_core_costs<Large>;
  CHECK(rungs[0].attainable() == doctest::Approx(1 / 40.0));
  CHECK(rungs[5].attainable() == doctest::Approx(1 / 1.375));
  CHECK(rungs[5].attainable(2048) == 1);  // an A100 multiplies at half the rate a clock
  CHECK(rungs[0].attainable(4096, mma_sync_on_h100) == doctest::Approx(1 / 40.0));
  CHECK(rungs[5].attainable(4096, mma_sync_on_h100) == doctest::Approx(0.63));
}
