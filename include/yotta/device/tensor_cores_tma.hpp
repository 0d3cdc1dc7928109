// Tensor cores, Hopper's second rung: an engine copies the tiles, and an mbarrier says when they
// are there.
//
//     tensor_cores_wgmma.hpp   128 threads copy | wgmma 0 | 128 threads copy | wgmma 1 | ...
//     here, 3 stages           one thread starts copies 0, 1, 2
//                              wait 0 | wgmma 0 | start 3, wait 1 | wgmma 1 | start 4, wait 2 | ...
//
// One thread starts the copy of a tile by an instruction; the Tensor Memory Accelerator (TMA)
// finds the addresses, swizzles, and puts zeros where the tile hangs over. The other 127 threads
// take no part, and no register holds a number of A or B. So what is left for threads is to know
// when.
//
// An mbarrier for each place of the ring counts bytes. `full` of place p completes a phase when
// all bytes of a tile of A and a tile of B have come; step s waits for phase s / stages of place
// s % stages, which has the parity s / stages % 2:
//
//     step     0   1   2   3   4   5   6        3 stages
//     place    0   1   2   0   1   2   0
//     parity   0   0   0   1   1   1   0
//
// A barrier of the block says the other way round that a place is free: behind it all four warps
// have waited for their wgmmas, and thread 0 starts the copy that comes there next.
//
// Contract: k and n multiples of 8 (rows begin at multiples of 16 bytes), m, n, k >= 1; BN a
// multiple of 64. launch_tma() makes the maps. sm_90a. Cost: wavefronts and sectors as in
// tensor_cores_wgmma.hpp; stages (64 + BN) 128 bytes of shared memory. References: PTX ISA,
// "cp.async.bulk.tensor", "mbarrier".
#pragma once

#include "yotta/device/cp_async_bulk_tensor.hpp"
#include "yotta/device/tensor_cores_wgmma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Places for the tiles of `stages` steps: BM x 64 of A and 64 x BN of B each.
template <int BM_, int BN_, int stages_>
struct TileRing {
  static constexpr int BM = BM_, BN = BN_, stages = stages_;
  static constexpr int step_bytes = bytes_of_a(BM) + bytes_of_b(BN);
  static constexpr size_t bytes = hopper_alignment + static_cast<size_t>(stages * step_bytes);

  char* tiles;
  uint64_t* full;  // an mbarrier for each place: its tiles have come

  __device__ char* a_at(int place) const { return tiles + place * step_bytes; }
  __device__ char* b_at(int place) const { return a_at(place) + bytes_of_a(BM); }
};

// One thread starts the copies of the tiles at (row, l) of A and (l, column) of B, step_bytes in
// all, which the place's `full` counts.
template <class Ring>
__device__ void copy_tiles(const Ring& ring, int place, const CUtensorMap* a, const CUtensorMap* b,
                           int row, int column, int l) {
  uint64_t* const full = ring.full + place;
  cp_async_bulk_tensor(ring.a_at(place), a, {l, row}, full);
  for (int panel = 0; panel < Ring::BN; panel += 64)
    cp_async_bulk_tensor(ring.b_at(place) + bytes_of_b(panel), b, {column + panel, l}, full);
}

template <int BN, int stages>
__global__ void __launch_bounds__(128)
    matmul_tma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
               float* __restrict__ c, int m, int n, int k) {
  __shared__ uint64_t full[stages];
  const TileRing<64, BN, stages> ring{aligned_tiles(), full};
  const int row = static_cast<int>(blockIdx.y) * 64, column = static_cast<int>(blockIdx.x) * BN;
  const int steps = (k + hopper_BK - 1) / hopper_BK;
  const auto copy = [&](int step) {
    if (threadIdx.x != 0 || step >= steps) return;
    mbarrier_arrive_expect_tx(full + step % stages, ring.step_bytes);
    copy_tiles(ring, step % stages, &a, &b, row, column, step * hopper_BK);
  };
  if (threadIdx.x == 0) {
    for (int place = 0; place < stages; ++place) mbarrier_init(full + place, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int step = 0; step < stages; ++step) copy(step);
  float d[BN / 2] = {};
  for (int step = 0; step < steps; ++step) {
    const int place = step % stages;
    const auto parity = static_cast<uint32_t>(step / stages % 2);
    while (!mbarrier_try_wait_parity(full + place, parity)) continue;
    multiply_step<BN>(d, ring.a_at(place), ring.b_at(place));
    __syncthreads();  // all four warps are done with this place
    copy(step + stages);
  }
  store_group<BN>(d, c, m, n, row, column);
}

// Maps whose boxes are a block's tiles: BM rows of A, and panels of 64 columns of B.
inline CUtensorMap map_of_a(const bfloat16* a, int m, int k, int BM) {
  return tensor_map(a, {m, k}, {static_cast<uint32_t>(BM), 64}, Swizzle::b128);
}
inline CUtensorMap map_of_b(const bfloat16* b, int k, int n) {
  return tensor_map(b, {k, n}, {64, 64}, Swizzle::b128);
}

template <int BN, int stages>
void launch_tma(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                cudaStream_t stream = nullptr) {
  launch(matmul_tma<BN, stages>, tiles_of(m, n, 64, BN), 128, TileRing<64, BN, stages>::bytes,
         stream, map_of_a(a, m, k, 64), map_of_b(b, k, n), c, m, n, k);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
