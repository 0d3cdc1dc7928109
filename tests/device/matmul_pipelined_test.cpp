// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/matmul_pipelined.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "device/matmul_cases.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// Copies x (rows, cols) in quads of four columns to y (rows, wide), from which zeros beyond the
// edge can be seen.
__global__ void copy_quads(const float* x, float* y, int rows, int cols, int wide) {
  const int row = threadIdx.y, col = 4 * threadIdx.x;
  const float4 four = load4(x, rows, cols, row, col);
  store4(y, rows, wide, row, col, four);
}

// A (8, 12) tile of x through registers and shared memory, as it is and transposed.
__global__ void through_shared(const float* x, float* plain, float* turned, int rows, int cols,
                               int top, int left) {
  alignas(16) __shared__ float tile[8][12], transposed[12][8];
  TileFetch<8, 12, 24> fetch;
  fetch.load(x, rows, cols, top, left);
  fetch.store(tile);
  fetch.store_transposed(transposed);
  __syncthreads();
  for (int i = threadIdx.x; i < 96; i += 24) {
    plain[i] = tile[i / 12][i % 12];
    turned[i] = transposed[i / 8][i % 8];
  }
}

std::vector<float> counting(int count) {
  std::vector<float> x(static_cast<size_t>(count));
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

// Writes each thread's name on its numbers of the block's tile.
template <class Tiles>
__global__ void mark_numbers(int* owner, int BN) {
  const Tiles at;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      const int row = at.row(i / 4) + i % 4, col = at.col(j / 4) + j % 4;
      owner[row * BN + col] = static_cast<int>(threadIdx.x);
    }
}

// How many numbers each thread was left with: 64 each means that no two wrote the same.
template <class Tiles>
void check_each_owns_64(int BM, int BN) {
  const int threads = BM * BN / 64;
  DeviceArray<int> owner(static_cast<size_t>(BM * BN));
  launch(mark_numbers<Tiles>, 1, static_cast<unsigned>(threads), 0, nullptr, owner.data(), BN);
  const std::vector<int> owners = owner.to_host();
  for (int thread = 0; thread < threads; ++thread)
    CHECK(std::count(owners.begin(), owners.end(), thread) == 64);
}

// A kernel that always takes four numbers gives what the other one does, bit for bit.
template <auto always, auto where_rows_allow, int BM, int BN>
void check_quads(int m, int n, int k) {
  const DeviceArray<float> a(counting(m * k)), b(counting(k * n));
  std::vector<std::vector<float>> found;
  for (const auto kernel : {always, where_rows_allow}) {
    DeviceArray<float> c(static_cast<size_t>(m * n));
    launch(kernel,
           {static_cast<unsigned>((n + BN - 1) / BN), static_cast<unsigned>((m + BM - 1) / BM)},
           BM * BN / 64, 0, nullptr, a.data(), b.data(), c.data(), m, n, k);
    found.push_back(c.to_host());
  }
  CHECK(found[0] == found[1]);
  float corner = 0;
  for (int l = 0; l < k; ++l)
    corner += static_cast<float>(1 + (m - 1) * k + l) * static_cast<float>(l * n + n);
  CHECK(found[0].back() == doctest::Approx(corner).epsilon(1e-5));
}

template <auto kernel, int BM, int BN>
void check(const char* name) {
  yotta_test::check_matmul(name, [](auto a, auto b, auto c, int m, int n, int k) {
    launch(kernel,
           {static_cast<unsigned>((n + BN - 1) / BN), static_cast<unsigned>((m + BM - 1) / BM)},
           BM * BN / 64, 0, nullptr, a, b, c, m, n, k);
  });
}

}  // namespace

TEST_CASE("four numbers a load, whether rows begin on 16 bytes or not; zeros beyond the edges") {
  for (const int cols : {8, 7, 5, 4, 1}) {
    const std::vector<float> x = counting(3 * cols);
    const DeviceArray<float> from(x);
    DeviceArray<float> to(4 * 8);
    launch(copy_quads, 1, {2, 4}, 0, nullptr, from.data(), to.data(), 3, cols, 8);
    const std::vector<float> y = to.to_host();
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 8; ++j)
        CHECK(y[static_cast<size_t>(i * 8 + j)] ==
              (j < cols ? x[static_cast<size_t>(i * cols + j)] : 0));
    CHECK(std::isnan(y[24]));  // row 3 does not exist: nothing is written
  }
}

TEST_CASE("stores drop what lies beyond the edges") {
  const std::vector<float> x = counting(24);
  for (const int wide : {8, 7, 6, 5, 4}) {
    const DeviceArray<float> from(x);
    DeviceArray<float> to(static_cast<size_t>(3 * wide));
    launch(copy_quads, 1, {2, 4}, 0, nullptr, from.data(), to.data(), 3, 8, wide);
    const std::vector<float> y = to.to_host();
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < wide; ++j)
        CHECK(y[static_cast<size_t>(i * wide + j)] == x[static_cast<size_t>(i * 8 + j)]);
  }
}

TEST_CASE("a tile passes through registers and shared memory, as it is and transposed") {
  const int rows = 10, cols = 16;
  const std::vector<float> x = counting(rows * cols);
  const DeviceArray<float> from(x);
  for (const int top : {0, 5})
    for (const int left : {0, 8}) {
      DeviceArray<float> plain(96), turned(96);
      launch(through_shared, 1, 24, 0, nullptr, from.data(), plain.data(), turned.data(), rows,
             cols, top, left);
      const std::vector<float> p = plain.to_host(), t = turned.to_host();
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 12; ++j) {
          const bool inside = top + i < rows && left + j < cols;
          const float expected = inside ? x[static_cast<size_t>((top + i) * cols + left + j)] : 0;
          CHECK(p[static_cast<size_t>(i * 12 + j)] == expected);
          CHECK(t[static_cast<size_t>(j * 8 + i)] == expected);
        }
    }
}

TEST_CASE("the threads' quads cover the block's tile, each number once") {
  check_each_owns_64<ThreadTiles<128>>(128, 128);
  check_each_owns_64<ThreadTiles<64>>(32, 64);
  check_each_owns_64<WarpTiles<128>>(128, 128);
  check_each_owns_64<WarpTiles<64>>(64, 64);
}

TEST_CASE("vectorised, tiles of several shapes") {
  check<matmul_vectorised<32, 64, 8>, 32, 64>("vectorised 32 x 64");
  check<matmul_vectorised<64, 32, 16>, 64, 32>("vectorised 64 x 32");
}

TEST_CASE("double-buffered, tiles of several shapes") {
  check<matmul_double_buffered<32, 64, 8>, 32, 64>("double-buffered 32 x 64");
  check<matmul_double_buffered<64, 64, 4>, 64, 64>("double-buffered 64 x 64");
}

TEST_CASE("warp tiles, one warp and several") {
  check<matmul_warp_tile<32, 64, 8>, 32, 64>("warp tile 32 x 64");
  check<matmul_warp_tile<64, 128, 8>, 64, 128>("warp tile 64 x 128");
}

TEST_CASE("rows that all begin on 16 bytes: nothing is asked, and the same comes out") {
  for (const auto& [m, n, k] : {std::array{40, 68, 12}, {5, 4, 20}, {64, 128, 8}}) {
    check_quads<matmul_vectorised<32, 64, 8, Quads::always>, matmul_vectorised<32, 64, 8>, 32, 64>(
        m, n, k);
    check_quads<matmul_double_buffered<32, 64, 8, Quads::always>, matmul_double_buffered<32, 64, 8>,
                32, 64>(m, n, k);
    check_quads<matmul_warp_tile<32, 64, 8, Quads::always>, matmul_warp_tile<32, 64, 8>, 32, 64>(
        m, n, k);
  }
}

TEST_CASE("k = 0 writes zeros") {
  DeviceArray<float> c(32 * 64);
  launch(matmul_warp_tile<32, 64, 8>, 1, 32, 0, nullptr, nullptr, nullptr, c.data(), 32, 64, 0);
  CHECK(c.to_host() == std::vector<float>(32 * 64, 0.0f));
}
