// Tensor cores: a matmul whose innermost step is one instruction of a whole warp, D = A B + C on 16
// x 16 times 16 x 8. The 32 lanes hold the small matrices together, so the work is to bring each
// lane its fragment.
//
//             k0                n0                      n0          one warp makes one tile of C:
//           +----+            +----+                  +----+           for k0 = 0, 16, 32, ...
//        m0 | A  | 16 x 16  k0| B  | 16 x 8  ==>   m0 | C  | 16 x 8      load A's and B's fragments
//           +----+            +----+                  +----+             mma: C += A B
//            a0..a3            b0, b1                  c0..c3          store C's fragment
//
// A lane is 4g + t: g = lane / 4 counts rows of A and C and columns of B, t = lane % 4 counts pairs
// of neighbours.
//
//     a[0]  row g,     columns 2t, 2t + 1      a[2]  row g,     columns 2t + 8, 2t + 9
//     a[1]  row g + 8, columns 2t, 2t + 1      a[3]  row g + 8, columns 2t + 8, 2t + 9
//     b[0]  rows 2t, 2t + 1, column g          b[1]  rows 2t + 8, 2t + 9, column g
//     c0, c1  row g, columns 2t, 2t + 1        c2, c3  row g + 8, columns 2t, 2t + 1
//
// A register a[i], b[i] holds two bf16, the one of lower index in the low half. Products are exact
// and C is f32: 16-bit inputs, 32-bit accumulation. A bf16 accumulator keeps 8 bits: once it is 256
// times a product, it no longer changes.
//
// Cost, for m x n x k: ceil(m/16) ceil(n/8) ceil(k/16) instructions of 4096 FLOPs. matmul_mma reads
// 768 bytes for each: 5.3 FLOPs per byte, where an H100 has 295 per byte of its memory.
// matmul_warp_mma makes a larger tile of C per warp, say 32 x 32, and uses each fragment again: 16
// per byte. The next rungs, tensor_cores_tile.hpp and tensor_cores_pipeline.hpp, let the warps of a
// block share what they read.
//
// Contract: A (m, k), B (k, n), C (m, n) row-major, m, n >= 1, k >= 0; grid (ceil(n / width),
// ceil(m / height)) of what a block makes, block 32 * `warps` threads.
// References: PTX ISA, "Matrix Fragments for mma.m16n8k16"; Micikevicius et al., "Mixed
// Precision Training", ICLR 2018, section 3.3 (accumulation in f32).
#pragma once

#include "yotta/device/mma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// This lane's part of the 16 x 16 tile of A at (row, column).
__device__ inline void load_a(uint32_t (&a)[4], const Bf16Matrix& matrix, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  for (int r = 0; r < 4; ++r) {
    const int i = row + g + 8 * (r % 2), l = column + 2 * t + 8 * (r / 2);
    a[r] = packed(matrix.bits(i, l), matrix.bits(i, l + 1));
  }
}

// This lane's part of the 16 x 8 tile of B at (row, column).
__device__ inline void load_b(uint32_t (&b)[2], const Bf16Matrix& matrix, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  for (int r = 0; r < 2; ++r) {
    const int l = row + 2 * t + 8 * r, j = column + g;
    b[r] = packed(matrix.bits(l, j), matrix.bits(l + 1, j));
  }
}

// Writes this lane's part of the 16 x 8 tile of C (m, n) at (row, column); what lies outside is
// dropped.
__device__ inline void store_c(const float (&c)[4], float* matrix, int m, int n, int row,
                               int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  for (int i = 0; i < 4; ++i) {
    const int to_row = row + g + 8 * (i / 2), to_column = column + 2 * t + i % 2;
    if (to_row < m && to_column < n) matrix[static_cast<int64_t>(to_row) * n + to_column] = c[i];
  }
}

// C = A B, one warp per tile of 16 x 8, `warps` of them side by side in a block.
template <int warps>
__global__ void __launch_bounds__(32 * warps)
    matmul_mma(const bfloat16* __restrict__ a, const bfloat16* __restrict__ b,
               float* __restrict__ c, int m, int n, int k) {
  const Bf16Matrix matrix_a = {a, m, k}, matrix_b = {b, k, n};
  const int warp = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.y) * 16, column = warp * 8;
  if (column >= n) return;  // the whole warp: mma needs all of its lanes or none
  float sum[4] = {};
  for (int l = 0; l < k; l += 16) {
    uint32_t fragment_a[4], fragment_b[2];
    load_a(fragment_a, matrix_a, row, l);
    load_b(fragment_b, matrix_b, l, column);
    mma_m16n8k16_bf16(sum, fragment_a, fragment_b, sum);
  }
  store_c(sum, c, m, n, row, column);
}

// The same with a tile of 16 down by 8 across for each warp: each fragment that it loads is used
// `across` or `down` times.
template <int warps, int down, int across>
__global__ void __launch_bounds__(32 * warps)
    matmul_warp_mma(const bfloat16* __restrict__ a, const bfloat16* __restrict__ b,
                    float* __restrict__ c, int m, int n, int k) {
  const Bf16Matrix matrix_a = {a, m, k}, matrix_b = {b, k, n};
  const int warp = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.y) * 16 * down, column = warp * 8 * across;
  if (column >= n) return;
  float sum[down][across][4] = {};
  for (int l = 0; l < k; l += 16) {
    uint32_t fragment_a[down][4], fragment_b[across][2];
    YOTTA_UNROLL
    for (int i = 0; i < down; ++i) load_a(fragment_a[i], matrix_a, row + 16 * i, l);
    YOTTA_UNROLL
    for (int j = 0; j < across; ++j) load_b(fragment_b[j], matrix_b, l, column + 8 * j);
    YOTTA_UNROLL
    for (int i = 0; i < down; ++i) {
      YOTTA_UNROLL
      for (int j = 0; j < across; ++j)
        mma_m16n8k16_bf16(sum[i][j], fragment_a[i], fragment_b[j], sum[i][j]);
    }
  }
  YOTTA_UNROLL
  for (int i = 0; i < down; ++i) {
    YOTTA_UNROLL
    for (int j = 0; j < across; ++j) store_c(sum[i][j], c, m, n, row + 16 * i, column + 8 * j);
  }
}

// The lane of a warp that holds the number (row, column) of a 16 x 8 tile of C.
constexpr int lane_of_c(int row, int column) { return 4 * (row % 8) + column / 2; }

// Instructions, and bytes read from memory, for m x n x k in tiles of tile_m x tile_n: each tile
// reads its rows of A and its columns of B once.
constexpr int64_t mma_count(int64_t m, int64_t n, int64_t k) {
  return ((m + 15) / 16) * ((n + 7) / 8) * ((k + 15) / 16);
}
constexpr double tile_intensity(int64_t tile_m, int64_t tile_n, int64_t bytes_per_element = 2) {
  return 2.0 * static_cast<double>(tile_m * tile_n) /
         static_cast<double>(bytes_per_element * (tile_m + tile_n));  // FLOPs per byte
}

// How much slower a chip is at what is no matmul: its tensor cores' rate over that of its other
// units.
constexpr double matmul_advantage(double tensor_flops, double vector_flops) {
  return tensor_flops / vector_flops;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
