// Cut from include/yotta. Students: write between the marks of your copy in work/.
// Authors: edit the library's header; `./yotta check NN --cut` writes this file again.
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

#include "yotta/core/exercise.hpp"
#include "yotta/device/kernel.hpp"

namespace yotta::student {
inline namespace YOTTA_DEVICE_BUILD {

// All threads of a block copy the (ROWS, COLS) tile of x (rows, cols) whose corner is (top, left);
// neighbours in a warp take neighbours in memory.
template <int ROWS, int COLS, int THREADS>
__device__ void load_tile(float (&tile)[ROWS][COLS], const float* x, int rows, int cols, int top,
                          int left) {
  // exercise 03.1: share the numbers out among the threads; 0 for those that x does not have
  not_done("03.1");
  // end of exercise 03.1
}

// Rung 3: a column of TM numbers per thread. Neighbouring threads own neighbouring columns.
template <int BM, int BN, int BK, int TM>
__global__ void matmul_register_column(const float* a, const float* b, float* c, int m, int n,
                                       int k) {
  // exercise 03.2: a column of TM sums per thread; each number of B is used for all of them
  not_done("03.2");
  // end of exercise 03.2
}

// Rung 4: a tile of (TM, TN) numbers per thread.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void matmul_register_tile(const float* a, const float* b, float* c, int m, int n,
                                     int k) {
  // exercise 03.3: a tile of (TM, TN) sums per thread; TM + TN loads for TM TN products
  not_done("03.3");
  // end of exercise 03.3
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
  // exercise 03.4: tiles down, across and along k; then the bytes of both memories
  not_done("03.4");
  return {};
  // end of exercise 03.4
}
// Shared memory is written by load_tile alone, what it finds beyond an edge too.
constexpr int64_t shared_bytes_written(int64_t m, int64_t n, int64_t k, const TileSizes& tile) {
  // exercise 03.5: blocks, times steps along k, times the bytes of both tiles
  not_done("03.5");
  return {};
  // end of exercise 03.5
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta::student
