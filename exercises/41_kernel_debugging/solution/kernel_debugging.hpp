// Three kernels, each with a bug: two that a GPU shows only now and then, and one that is right and
// slow. A student gets them with the bug; the folder solution has them mended. The first two
// compute C (m, n) = A (m, k) B (k, n), float, row-major, a block for each number of C.
//
//     report   what was seen                              the kernel
//     1        a sum that changes from run to run         dot_by_halves
//     2        a launch that never ends, for some k       dot_by_pieces
//     3        a transpose that is right and slow         transpose_by_tiles
//
// Contract: grid (n, m), THREADS threads a block, a power of two; of the transpose a block for each
// tile of C, with T threads in x and any number in y.
#pragma once

#include "yotta/device/kernel.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Half of the threads add the other half's sums, then a quarter, ...: sums[0] becomes that of all.
template <int THREADS>
__device__ void add_by_halves(float (&sums)[THREADS], int thread) {
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
}

// Each thread sums every THREADS-th product; add_by_halves does the rest.
template <int THREADS>
__global__ void dot_by_halves(const float* a, const float* b, float* c, int /*m*/, int n, int k) {
  __shared__ float sums[THREADS];
  const int row = blockIdx.y, col = blockIdx.x, thread = threadIdx.x;
  float own = 0;
  for (int l = thread; l < k; l += THREADS) own += a[row * k + l] * b[l * n + col];
  sums[thread] = own;
  add_by_halves(sums, thread);
  if (thread == 0) c[row * n + col] = sums[0];
}

// THREADS products at a time go into `piece`, in shared memory, and thread 0 adds them up.
template <int THREADS>
__device__ float sum_of_pieces(float (&piece)[THREADS], const float* a, const float* b, int row,
                               int col, int n, int k) {
  const int thread = threadIdx.x;
  float sum = 0;
  for (int start = 0; start < k; start += THREADS) {
    const int l = start + thread;
    piece[thread] = l < k ? a[row * k + l] * b[l * n + col] : 0;
    __syncthreads();
    for (int i = 0; i < THREADS && thread == 0; ++i) sum += piece[i];
    __syncthreads();
  }
  return sum;
}

template <int THREADS>
__global__ void dot_by_pieces(const float* a, const float* b, float* c, int /*m*/, int n, int k) {
  __shared__ float piece[THREADS];
  const int row = blockIdx.y, col = blockIdx.x;
  const float sum = sum_of_pieces(piece, a, b, row, col, n, k);
  if (threadIdx.x == 0) c[row * n + col] = sum;
}

// A tile of A (n, m) comes in by rows, and leaves by rows of C (m, n), its transpose.
template <int T>
__device__ void transpose_tile(const float* a, float* c, int m, int n) {
  __shared__ float tile[T][T + 1];
  const int x = threadIdx.x;
  for (int y = threadIdx.y; y < T; y += blockDim.y) {
    const int row = blockIdx.x * T + y;
    const int col = blockIdx.y * T + x;
    if (row < n && col < m) tile[y][x] = a[row * m + col];
  }
  __syncthreads();
  for (int y = threadIdx.y; y < T; y += blockDim.y) {
    const int row = blockIdx.y * T + y;
    const int col = blockIdx.x * T + x;
    if (row < m && col < n) c[row * n + col] = tile[x][y];
  }
}

template <int T>
__global__ void transpose_by_tiles(const float* a, const float* /*b*/, float* c, int m, int n,
                                   int /*k*/) {
  transpose_tile<T>(a, c, m, n);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
