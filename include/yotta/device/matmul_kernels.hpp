// The CUDA matmul ladder, rungs 0 and 1: one thread per number of C, straight from global memory,
// with its threads laid out the wrong way and the right way. C (m, n) = A (m, k) B (k, n), float,
// row-major.
//
//     a warp is 32 threads that run together, neighbours in x. One of its loads is one request,
//     and memory answers in sectors of 32 bytes:
//
//     naive: x counts rows            coalesced: x counts columns
//       lane 0   A row 0  ▓░░░░░        lanes 0 to 31 share A's number:   1 sector
//       lane 1   A row 1  ▓░░░░░        lane   0 1 2 3 ... 31
//       lane 2   A row 2  ▓░░░░░        B row  ▓▓▓▓▓▓▓▓▓▓▓▓▓▓             4 sectors, all of it used
//         ...    32 sectors, 4 bytes of each used; B's number is shared: 1 sector
//
// The same loads and the same sums in the same order; only the assignment to threads differs.
// Sectors per multiply-add of a warp: 33 against 5. Published for an RTX A6000: 309 against 1987
// GFLOP/s, 6.4 times.
//
// Cost: 2 m n k FLOPs; 2 m n k loads, of which 32 are one request.
// Contract: block (T, T), grid (ceil(m / T), ceil(n / T)) for naive, (ceil(n / T), ceil(m / T)) for
// coalesced; m k, k n and m n below 2^31.
// Reference: Boehm, "How to Optimize a CUDA Matmul Kernel" (2022), kernels 1 and 2.
#pragma once

#include "yotta/device/kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Computes c(row, col), if C has it.
__device__ inline void multiply_one(const float* __restrict__ a, const float* __restrict__ b,
                                    float* __restrict__ c, int m, int n, int k, int row, int col) {
  if (row >= m || col >= n) return;
  float sum = 0;
  for (int l = 0; l < k; ++l) sum += a[row * k + l] * b[l * n + col];
  c[row * n + col] = sum;
}

// Rung 0: as one would count by hand, x for rows. Lanes of a warp walk down a column.
template <int T>
__global__ void __launch_bounds__(T* T)
    matmul_uncoalesced(const float* __restrict__ a, const float* __restrict__ b,
                       float* __restrict__ c, int m, int n, int k) {
  const int row = blockIdx.x * T + threadIdx.x, col = blockIdx.y * T + threadIdx.y;
  multiply_one(a, b, c, m, n, k, row, col);
}

// Rung 1: x for columns. Lanes of a warp are neighbours in a row of B and of C.
template <int T>
__global__ void __launch_bounds__(T* T)
    matmul_coalesced(const float* __restrict__ a, const float* __restrict__ b,
                     float* __restrict__ c, int m, int n, int k) {
  const int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
  multiply_one(a, b, c, m, n, k, row, col);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
