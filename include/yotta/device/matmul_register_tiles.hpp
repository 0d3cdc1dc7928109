// The CUDA matmul ladder, rungs 3 and 4: each thread computes not one number of C but a column of
// TM of them, or a tile of (TM, TN), and keeps their sums in registers. C (m, n) = A (m, k) B (k,
// n), float, row-major.
//
//     a thread loads, for each step of k          and multiplies    bytes of shared memory per FLOP
//     shared tile      1 of A,  1 of B                 1 time       4
//     1D: (TM, 1)     TM of A,  1 of B                TM times      2 (1 + 1/TM)    2.25 for TM = 8
//     2D: (TM, TN)    TM of A, TN of B             TM TN times      2 (1/TM + 1/TN) 0.5 for 8 x 8
//
// Memory and registers follow one law, each with its own tile (tile_bytes_per_flop in
// core/matmul_ladder.hpp): a (BM, BN) tile of C needs 2/BM + 2/BN bytes from memory per FLOP, a
// (TM, TN) tile as many from shared memory. An SM reads 128 bytes of shared memory per clock and
// does 256 FLOPs in it: with a shared tile alone, which wants 4 bytes for each, it can do 32.
//
// Contract: A's tile (BM, BK) and B's (BK, BN) divide among the block's threads. 1D: block (BM BN /
// TM), 2D: block (BM BN / (TM TN)); grid (ceil(n / BN), ceil(m / BM)). Numbers beyond an edge count
// as zero.
// Letters: (BM, BN) a block's tile of C, BK its step in k, (TM, TN) a thread's tile; l an index of
// k.
// Reference: Boehm, "How to Optimize a CUDA Matmul Kernel" (2022), kernels 4 and 5; Volkov and
// Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra" (SC08).
#pragma once

#include "yotta/device/kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// All threads of a block copy the (ROWS, COLS) tile of x (rows, cols) whose corner is (top, left);
// neighbours in a warp take neighbours in memory.
template <int ROWS, int COLS, int THREADS>
__device__ void load_tile(float (&tile)[ROWS][COLS], const float* x, int rows, int cols, int top,
                          int left) {
  for (int i = threadIdx.x; i < ROWS * COLS; i += THREADS) {
    const int row = top + i / COLS, col = left + i % COLS;
    tile[i / COLS][i % COLS] = row < rows && col < cols ? x[row * cols + col] : 0;
  }
}

// Rung 3: a column of TM numbers per thread. Neighbouring threads own neighbouring columns.
template <int BM, int BN, int BK, int TM>
__global__ void __launch_bounds__(BM* BN / TM)
    matmul_register_column(const float* __restrict__ a, const float* __restrict__ b,
                           float* __restrict__ c, int m, int n, int k) {
  constexpr int threads = BM * BN / TM;
  __shared__ float a_tile[BM][BK], b_tile[BK][BN];
  const int top = blockIdx.y * BM, left = blockIdx.x * BN;
  const int col = threadIdx.x % BN, row = threadIdx.x / BN * TM;  // in the block's tile
  float sums[TM] = {};
  for (int start = 0; start < k; start += BK) {
    load_tile<BM, BK, threads>(a_tile, a, m, k, top, start);
    load_tile<BK, BN, threads>(b_tile, b, k, n, start, left);
    __syncthreads();
    for (int l = 0; l < BK; ++l) {
      const float once = b_tile[l][col];
      for (int i = 0; i < TM; ++i) sums[i] += a_tile[row + i][l] * once;
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    if (top + row + i < m && left + col < n) c[(top + row + i) * n + left + col] = sums[i];
}

// Rung 4: a tile of (TM, TN) numbers per thread.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__(BM* BN / (TM * TN), 2)
    matmul_register_tile(const float* __restrict__ a, const float* __restrict__ b,
                         float* __restrict__ c, int m, int n, int k) {
  constexpr int threads = BM * BN / (TM * TN);
  __shared__ float a_tile[BM][BK], b_tile[BK][BN];
  const int top = blockIdx.y * BM, left = blockIdx.x * BN;
  const int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;
  float sums[TM][TN] = {};
  for (int start = 0; start < k; start += BK) {
    load_tile<BM, BK, threads>(a_tile, a, m, k, top, start);
    load_tile<BK, BN, threads>(b_tile, b, k, n, start, left);
    __syncthreads();
    for (int l = 0; l < BK; ++l) {
      float x[TM], y[TN];
      for (int i = 0; i < TM; ++i) x[i] = a_tile[row + i][l];
      for (int j = 0; j < TN; ++j) y[j] = b_tile[l][col + j];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) sums[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j)
      if (top + row + i < m && left + col + j < n)
        c[(top + row + i) * n + left + col + j] = sums[i][j];
}

// What a kernel with such tiles loads, all threads together, for C (m, n) = A (m, k) B (k, n).
struct TileSizes {
  int BM, BN, BK, TM, TN;
};
struct LoadedBytes {
  double global = 0, shared = 0;
};
// Global memory is read inside of the matrices alone. The inner loops multiply whole tiles, also
// what hangs over an edge.
constexpr LoadedBytes bytes_loaded(int64_t m, int64_t n, int64_t k, const TileSizes& tile) {
  LoadedBytes bytes;
  const int64_t down = (m + tile.BM - 1) / tile.BM, across = (n + tile.BN - 1) / tile.BN;
  const int64_t steps = (k + tile.BK - 1) / tile.BK * tile.BK;
  bytes.global = static_cast<double>(4 * (m * k * across + k * n * down));
  const int64_t products = down * tile.BM * across * tile.BN * steps;
  bytes.shared = static_cast<double>(4 * products / (tile.TM * tile.TN) * (tile.TM + tile.TN));
  return bytes;
}
// Shared memory is written by load_tile alone, what it finds beyond an edge too.
constexpr int64_t shared_bytes_written(int64_t m, int64_t n, int64_t k, const TileSizes& tile) {
  const int64_t blocks = (m + tile.BM - 1) / tile.BM * ((n + tile.BN - 1) / tile.BN);
  return 4 * blocks * ((k + tile.BK - 1) / tile.BK) * tile.BK * (tile.BM + tile.BN);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
