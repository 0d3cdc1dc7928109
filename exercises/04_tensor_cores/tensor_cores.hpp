// Cut from include/yotta. Students: write between the marks of your copy in work/.
// Authors: edit the library's header; `./yotta check NN --cut` writes this file again.
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
// and C is f32: 16-bit inputs, 32-bit accumulation. A bf16 accumulator has 8 bits: once it is 256
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

#include "yotta/core/exercise.hpp"
#include "yotta/device/mma.hpp"

namespace yotta::student {
inline namespace YOTTA_DEVICE_BUILD {

// This lane's part of the 16 x 16 tile of A at (row, column).
__device__ inline void load_a(uint32_t (&a)[4], const Bf16Matrix& matrix, int row, int column) {
  // exercise 04.1: fill the four registers; two neighbours in a row share one
  not_done("04.1");
  // end of exercise 04.1
}

// This lane's part of the 16 x 8 tile of B at (row, column).
__device__ inline void load_b(uint32_t (&b)[2], const Bf16Matrix& matrix, int row, int column) {
  // exercise 04.2: fill the two registers; two neighbours in a column share one
  not_done("04.2");
  // end of exercise 04.2
}

// Writes this lane's part of the 16 x 8 tile of C (m, n) at (row, column); what lies outside is
// dropped.
__device__ inline void store_c(const float (&c)[4], float* matrix, int m, int n, int row,
                               int column) {
  // exercise 04.3: write the four accumulators to where they belong, if that is inside
  not_done("04.3");
  // end of exercise 04.3
}

// C = A B, one warp per tile of 16 x 8, `warps` of them side by side in a block.
template <int warps>
__global__ void matmul_mma(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
  // exercise 04.4: walk along k, 16 at a time, adding up in f32; then store
  not_done("04.4");
  // end of exercise 04.4
}

// The same with a tile of 16 down by 8 across for each warp: each fragment that it loads is used
// `across` or `down` times.
template <int warps, int down, int across>
__global__ void matmul_warp_mma(const bfloat16* a, const bfloat16* b, float* c, int m, int n,
                                int k) {
  // exercise 04.5: as 04.4, with down x across sums; load each fragment once per step
  not_done("04.5");
  // end of exercise 04.5
}

// The lane of a warp that holds the number (row, column) of a 16 x 8 tile of C.
constexpr int lane_of_c(int row, int column) {
  // exercise 04.6: the picture at the top says which g and which t have this number
  not_done("04.6");
  return {};
  // end of exercise 04.6
}

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
}  // namespace yotta::student
