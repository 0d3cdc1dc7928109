// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/bf16_matmul.hpp"
#include "yotta/device/mma_fragments.hpp"

using namespace yotta;

namespace {

// C by a kernel of which a block makes height x width.
template <auto kernel, int warps, int height, int width>
std::vector<float> product(const Bf16Problem& p) {
  return p.run([&](const bfloat16* a, const bfloat16* b, float* c) {
    const auto across = static_cast<unsigned>((p.n + width - 1) / width);
    const auto down = static_cast<unsigned>((p.m + height - 1) / height);
    launch(kernel, {across, down}, 32 * warps, 0, nullptr, a, b, c, p.m, p.n, p.k);
  });
}
constexpr auto one_warp = product<matmul_mma<1>, 1, 16, 8>;
constexpr auto four_warps = product<matmul_mma<4>, 4, 16, 32>;
constexpr auto warp_tiles = product<matmul_warp_mma<2, 2, 4>, 2, 32, 64>;

}  // namespace

TEST_CASE("C = A B to rounding, sizes that divide and that do not") {
  for (const auto& [m, n, k] : matmul_sizes) {
    const Bf16Problem problem(m, n, k);
    check_product(problem, one_warp(problem));
    check_product(problem, four_warps(problem));
    check_product(problem, warp_tiles(problem));
  }
}

TEST_CASE("one-hot: element (i, l) of A meets element (l, j) of B in element (i, j) of C, alone") {
  for (int i = 0; i < 16; ++i)
    for (const int l : {0, 1, 5, 8, 15})
      for (const int j : {0, 3, 7}) {
        Bf16Problem problem(16, 8, 16, 0);
        problem.a[static_cast<size_t>(i * 16 + l)] = bfloat16(2.0f);
        problem.b[static_cast<size_t>(l * 8 + j)] = bfloat16(3.0f);
        std::vector<float> expected(128);
        expected[static_cast<size_t>(i * 8 + j)] = 6;
        CHECK(one_warp(problem) == expected);
      }
}

TEST_CASE("sums are f32: 4096 ones and small numbers that bf16 would drop") {
  Bf16Problem problem(16, 8, 4096, 0);
  for (auto& x : problem.a) x = bfloat16(1.0f);
  for (auto& x : problem.b) x = bfloat16(1.0f);
  for (const float value : one_warp(problem)) CHECK(value == 4096);
}

TEST_CASE("lane_of_c is the lane that mma says") {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      CHECK(lane_of_c(M16N8K16::c(lane, i).row, M16N8K16::c(lane, i).column) == lane);
}

TEST_CASE("what it costs") {
  CHECK(mma_count(16, 8, 16) == 1);
  CHECK(mma_count(17, 9, 33) == 2 * 2 * 3);
  CHECK(mma_count(8192, 8192, 8192) * mma_flops<M16N8K16>() == int64_t{2} * 8192 * 8192 * 8192);
  CHECK(tile_intensity(32, 32) == 16);
  CHECK(tile_intensity(16, 8) == doctest::Approx(4096.0 / 768));
  CHECK(tile_intensity(128, 256) == doctest::Approx(85.333333));
}
