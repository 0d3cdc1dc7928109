// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/flash_attention_warp.hpp"

#include <doctest/doctest.h>

#include "support/attention_problem.hpp"
#include "yotta/device/mma_fragments.hpp"

using namespace yotta;

namespace {

constexpr int d = 32, rows = 32;
using T = FlashWarps<d, rows, rows, 32>;

// s (rows, rows) = X X', then o (rows, d) = s X: what lies in registers is not moved between.
__global__ void two_products(const bfloat16* x, float* s, float* o) {
  uint16_t* tile = dynamic_shared<uint16_t>();
  copy_rows_async<rows, d, 32>(tile, x, 0, rows, [](int row) { return row * d; });
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  float scores[2][rows / 8][4] = {}, sums[2][d / 8][4] = {};
  multiply_rows<d>(scores, tile, 0, tile);
  multiply_registers<d>(sums, scores, tile);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 2; ++i)
    for (int e = 0; e < 4; ++e) {
      const MatrixCell at = M16N8K16::c(lane, e);
      for (int j = 0; j < rows / 8; ++j)
        s[(16 * i + at.row) * rows + 8 * j + at.column] = scores[i][j][e];
      for (int j = 0; j < d / 8; ++j) o[(16 * i + at.row) * d + 8 * j + at.column] = sums[i][j][e];
    }
}

// m, l and what is left of o = 1 after `steps` steps of one score for all.
__global__ void softmax_steps(const float* scores, int steps, float* out) {
  WarpSoftmax<T> sums;
  for (int step = 0; step < steps; ++step) {
    float s[2][rows / 8][4];
    for (auto& row : s)
      for (auto& tile : row)
        for (float& score : tile) score = scores[step];
    if (step == 1) sums.o[0][0][0] = 1;
    sums.step(s, log2_of_e);
  }
  const float l = row_sum(sums.l[0][0]);
  if (threadIdx.x == 0) out[0] = sums.m[0][0], out[1] = l, out[2] = sums.o[0][0][0];
}

std::vector<float> after(const std::vector<float>& scores) {
  const DeviceArray<float> device(scores);
  DeviceArray<float> out(3);
  launch(softmax_steps, 1, 32, 0, nullptr, device.data(), static_cast<int>(scores.size()),
         out.data());
  return out.to_host();
}

}  // namespace

TEST_CASE("the lanes that get a product hold the left side of the next") {
  std::vector<bfloat16> x(rows * d);  // small whole numbers: all products are exact in bf16
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = bfloat16(static_cast<float>(static_cast<int>(i * i % 7 % 3) - 1));
  const DeviceArray<bfloat16> device(x);
  DeviceArray<float> s(rows * rows), o(rows * d);
  launch(two_products, 1, 32, size_t{2} * rows * d, nullptr, device.data(), s.data(), o.data());
  Doubles wanted_s(rows * rows), wanted_o(rows * d);
  const auto at = [&](int row, int column) { return static_cast<double>(x[row * d + column]); };
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < rows; ++j)
      for (int l = 0; l < d; ++l) wanted_s[i * rows + j] += at(i, l) * at(j, l);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < rows; ++j)
      for (int l = 0; l < d; ++l) wanted_o[i * d + l] += wanted_s[i * rows + j] * at(j, l);
  CHECK(difference(s.to_host(), wanted_s) == 0);
  CHECK(difference(o.to_host(), wanted_o) == 0);
}

TEST_CASE("a larger score makes what was summed worth less, a hidden one adds nothing") {
  CHECK(difference(after({1, 3}), {3, 32 * (std::exp(-2.0) + 1), std::exp(-2.0)}) < 1e-5);
  CHECK(difference(after({3, 1}), {3, 32 * (std::exp(-2.0) + 1), 1}) < 1e-5);
  CHECK(difference(after({-INFINITY, 2, -INFINITY}), {2, 32, 0}) < 1e-5);
  CHECK(difference(after({-INFINITY}), {-INFINITY, 0, 0}) == 0);
}
