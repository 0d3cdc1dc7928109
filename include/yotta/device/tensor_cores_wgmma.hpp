// Tensor cores, Hopper's first rung: wgmma multiplies straight from shared memory.
//
//     tensor_cores_tile.hpp   memory ─► shared memory ─► registers of 32 lanes ─► mma, 16 x 8
//     here                    memory ─► shared memory ──────────────────────────► wgmma, 64 x BN
//                                                     registers: the sums alone
//
// Four warps, a warp group, make 64 x BN of C in steps of 64 along k. All 128 threads copy a
// tile of A and one of B as in tensor_cores_tile.hpp; then they start four wgmmas, of 16 along k
// each, and wait for them. No fragment is loaded: the instruction gets two descriptors.
//
// Tiles. A's is 64 rows of 128 bytes. B's is BN / 64 panels side by side, each 64 rows of k of
// 128 bytes. Within 8 rows chunk c of row r lies at c ^ (r % 8): the swizzle of
// tensor_cores_tile.hpp for rows of 64 numbers, and wgmma's swizzle of 128 bytes, are the same
// rule.
//
//     16 further along k    in A   32 bytes to the right: the descriptor + 2, in units of 16 bytes
//                           in B   16 rows of 128 bytes below: + 128
//
// What threads write, the tensor core sees only after a fence_proxy_async() and the barrier
// behind it. It reads until wgmma_wait_group<0>() and the next barrier: only then may tiles be
// replaced.
//
// Cost: a warp group reads 64 x 16 of A and 16 x BN of B for 64 x BN x 16 products, so 32 (64 +
// BN) / (64 BN) wavefronts per 4096 FLOPs: what a warp needs for a tile of 64 x BN with
// mma.sync, which its registers do not hold from BN = 128 on. Here four warps hold it, BN / 2
// sums a thread. Contract: any m, n >= 1 and k >= 0; grid (ceil(n/BN), ceil(m/64)), 128 threads;
// BN a multiple of 64. sm_90a. References: PTX ISA, "Asynchronous Warpgroup Level Matrix
// Instructions".
#pragma once

#include "yotta/device/tensor_cores_tile.hpp"
#include "yotta/device/warp_groups.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The tiles of one step: 64 rows of A for each warp group, and B.
constexpr int hopper_BK = 64;
constexpr int bytes_of_a(int BM) { return BM * hopper_BK * 2; }
constexpr int bytes_of_b(int BN) { return hopper_BK * BN * 2; }

// Dynamic shared memory from the first multiple of 1024 on, where patterns of a swizzle begin.
constexpr size_t hopper_alignment = 1024;
__device__ inline char* aligned_tiles() {
  char* const all = dynamic_shared<char>();
  const uintptr_t beyond = reinterpret_cast<uintptr_t>(all) % hopper_alignment;
  return all + (hopper_alignment - beyond) % hopper_alignment;
}

// Starts d += a b, 64 of k, for tiles (64, 64) and (64, BN), and waits until it is done.
template <int BN>
__device__ __forceinline__ void multiply_step(float (&d)[BN / 2], const char* a_tile,
                                              const char* b_tile) {
  const uint64_t a = wgmma_descriptor(a_tile, 0, 1024, Swizzle::b128);
  const uint64_t b = wgmma_descriptor(b_tile, bytes_of_b(64), 1024, Swizzle::b128);
  wgmma_fence();
  YOTTA_UNROLL
  for (int k = 0; k < hopper_BK / 16; ++k)
    wgmma<BN, bfloat16, Major::k, Major::mn>(d, a + static_cast<uint64_t>(2 * k),
                                             b + static_cast<uint64_t>(128 * k));
  wgmma_commit_group();
  wgmma_wait_group<0>();
}

// Writes what a warp group has added up to C (m, n), where its 64 x BN begin at (row, column).
template <int BN>
__device__ __forceinline__ void store_group(const float (&d)[BN / 2], float* c, int m, int n,
                                            int row, int column) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  YOTTA_UNROLL
  for (int i = 0; i < BN / 2; ++i) {
    const MatrixCell at = wgmma_cell(thread, i);
    if (row + at.row < m && column + at.column < n)
      c[int64_t{row + at.row} * n + column + at.column] = d[i];
  }
}

template <int BN>
constexpr size_t wgmma_bytes() {
  return hopper_alignment + static_cast<size_t>(bytes_of_a(64) + bytes_of_b(BN));
}

// C = A B: copy the tiles of a step, multiply them, and on to the next.
template <int BN>
__global__ void __launch_bounds__(128)
    matmul_wgmma(const bfloat16* __restrict__ a, const bfloat16* __restrict__ b,
                 float* __restrict__ c, int m, int n, int k) {
  constexpr int BK = hopper_BK;
  char* const a_tile = aligned_tiles();
  char* const b_tile = a_tile + bytes_of_a(64);
  const int row = static_cast<int>(blockIdx.y) * 64, column = static_cast<int>(blockIdx.x) * BN;
  float d[BN / 2] = {};
  for (int l = 0; l < k; l += BK) {
    copy_tile<64, BK, Rows::swizzled, 128>(reinterpret_cast<uint16_t*>(a_tile), {a, m, k}, row, l);
    for (int panel = 0; panel < BN; panel += 64)
      copy_tile<BK, 64, Rows::swizzled, 128>(
          reinterpret_cast<uint16_t*>(b_tile + bytes_of_b(panel)), {b, k, n}, l, column + panel);
    fence_proxy_async();
    __syncthreads();
    multiply_step<BN>(d, a_tile, b_tile);
    __syncthreads();
  }
  store_group<BN>(d, c, m, n, row, column);
}

// A grid: a block for each BM x BN of C (m, n).
inline dim3 tiles_of(int m, int n, int BM, int BN) {
  return {static_cast<unsigned>((n + BN - 1) / BN), static_cast<unsigned>((m + BM - 1) / BM), 1};
}

template <int BN>
void launch_wgmma(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                  cudaStream_t stream = nullptr) {
  launch(matmul_wgmma<BN>, tiles_of(m, n, 64, BN), 128, wgmma_bytes<BN>(), stream, a, b, c, m, n,
         k);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
