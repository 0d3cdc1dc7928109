// nvcc
// The CUDA matmul ladder, rungs 5 to 7: vectorised, double-buffered, warp tiles. C (m, n) = A (m, k) B (k, n).
//
//     vectorised        global ─► registers ─► shared ─► barrier ─► multiply ─► barrier      float4 everywhere
//
//     double-buffered   global ─► registers ────────────────────────► shared 1 ─► barrier
//                                     multiply from shared 0                         the loads of the next
//                                                                                    tile fly meanwhile
//     warp tiles        the same, and each warp works on one (32, 64) corner: no bank conflicts, and fewer
//                       different numbers are read by a warp
//
// Nothing changes in what is computed or in how many bytes come from memory. What changes is the number of
// instructions that move them (a quarter), how long multipliers wait for them, and how often threads of a
// warp ask the same bank of shared memory.
//
// Cost: bytes as matmul_register_tiles.hpp; shared memory 4 (BK (BM + 4) + BK BN) bytes, doubled from rung 6 on.
// Contract: block (BM BN / 64) threads, grid (ceil(n / BN), ceil(m / BM)); m k, k n and m n below 2^31; A, B and
// C begin on 16 bytes, as cudaMalloc's memory does.
// References: NVIDIA CUTLASS, "Efficient GEMM in CUDA" (software pipelining); Boehm, "How to Optimize a CUDA
// Matmul Kernel" (2022), kernels 6 to 10.
#pragma once

#include "yotta/device/matmul_tiles.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Rows of A's transposed tile are 4 numbers longer than the tile. A warp stores 16 rows of two float4 columns,
// which lie 4 rows of the tile apart: without the 4 both columns would fall into the same banks.
template <int BM>
inline constexpr int a_pitch = BM + 4;

// Rung 5: the 2D register tile with float4 loads. A is transposed on its way into shared memory.
template <int BM, int BN, int BK>
__global__ void matmul_vectorised(const float* a, const float* b, float* c, int m, int n, int k) {
  constexpr int threads = BM * BN / 64;
  alignas(16) __shared__ float a_tile[BK][a_pitch<BM>], b_tile[BK][BN];
  const int top = blockIdx.y * BM, left = blockIdx.x * BN;
  const ThreadTiles<BN> at;
  TileFetch<BM, BK, threads> a_fetch;
  TileFetch<BK, BN, threads> b_fetch;
  float sums[8][8] = {};
  for (int l = 0; l < k; l += BK) {
    a_fetch.load(a, m, k, top, l);
    b_fetch.load(b, k, n, l, left);
    a_fetch.store_transposed(a_tile);
    b_fetch.store(b_tile);
    __syncthreads();
    multiply_tile<BK>(a_tile, b_tile, at, sums);
    __syncthreads();
  }
  store_sums(c, m, n, top, left, at, sums);
}

// Rungs 6 and 7: while tile t is multiplied, tile t + 1 is on its way into registers; it goes into the other
// half of shared memory, which nobody reads, so one barrier a tile is enough.
template <int BM, int BN, int BK, template <int> class Tiles>
__global__ void matmul_pipelined(const float* a, const float* b, float* c, int m, int n, int k) {
  constexpr int threads = BM * BN / 64;
  alignas(16) __shared__ float a_tile[2][BK][a_pitch<BM>], b_tile[2][BK][BN];
  const int top = blockIdx.y * BM, left = blockIdx.x * BN;
  const Tiles<BN> at;
  TileFetch<BM, BK, threads> a_fetch;
  TileFetch<BK, BN, threads> b_fetch;
  float sums[8][8] = {};
  const auto fetch = [&](int l) {
    a_fetch.load(a, m, k, top, l);
    b_fetch.load(b, k, n, l, left);
  };
  const auto put = [&](int which) {
    a_fetch.store_transposed(a_tile[which]);
    b_fetch.store(b_tile[which]);
  };
  fetch(0);
  put(0);
  __syncthreads();
  for (int l = 0, which = 0; l < k; l += BK, which ^= 1) {
    const bool more = l + BK < k;
    if (more) fetch(l + BK);
    multiply_tile<BK>(a_tile[which], b_tile[which], at, sums);
    if (more) put(which ^ 1);
    __syncthreads();
  }
  store_sums(c, m, n, top, left, at, sums);
}

// Rung 6: a thread's numbers lie where they did before.
template <int BM, int BN, int BK>
inline constexpr auto matmul_double_buffered = matmul_pipelined<BM, BN, BK, ThreadTiles>;

// Rung 7: each warp has a tile of its own.
template <int BM, int BN, int BK>
inline constexpr auto matmul_warp_tile = matmul_pipelined<BM, BN, BK, WarpTiles>;

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
