// Tensor cores, Hopper's fifth rung, which grows from the third: two blocks share what TMA brings.
//
//                        block of rank 0                      block of rank 1
//     rows of C          0 to BM - 1                          BM to 2 BM - 1
//     its own copies     A of its rows ─► its own ring        A of its rows ─► its own ring
//     for both           even panels of B ─► both rings       odd panels of B ─► both rings
//
// The blocks of tensor_cores_hopper.hpp that stand below each other read the same tiles of B,
// each for itself. Two of them can be a cluster: they run at the same time on neighbouring SMs,
// and one copy can write to the same place in both (multicast). So each block asks the L2 for
// half of B.
//
// A copy for both counts its bytes on the `full` mbarrier of each. So every block still expects
// all bytes of a step, whoever brings them. But a place must be empty in both blocks before
// anyone writes there: a warp that has multiplied arrives at `empty` here and in the other
// block, and the mbarrier counts the warps of both. No block may end before the last of these
// has come.
//
// Cost: sectors from the L2 as for a tile of BM x BN with half of B, 128 (BM + BN / 2) / (BM BN)
// per 4096 FLOPs; shared memory takes in what it did before. Contract: as in
// tensor_cores_hopper.hpp; BN a multiple of 64; clusters of two, so a grid with an even number
// of blocks in y. launch_multicast() makes that. References: PTX ISA, "cp.async.bulk.tensor",
// .multicast::cluster; Shankhdhar 2024, kernel 7.
#pragma once

#include "yotta/device/block_cluster.hpp"
#include "yotta/device/tensor_cores_hopper.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// All threads of both blocks: rings that the other block may write to, too.
template <class Ring>
__device__ Ring make_shared_ring(uint64_t* full, uint64_t* empty) {
  if (threadIdx.x == 0) {
    for (int place = 0; place < Ring::stages; ++place) {
      mbarrier_init(full + place, 1);
      mbarrier_init(empty + place, 2 * 4 * Ring::consumers);  // blocks, warps
    }
    fence_mbarrier_init();
  }
  cluster_sync();
  return {{aligned_tiles(), full}, empty};
}

// The producer of a block: fill_place() whose panels of B are for both.
template <class Ring>
__device__ void fill_both(const Ring& ring, int step, const CUtensorMap* a, const CUtensorMap* b,
                          int row, int column, int l) {
  const int place = step % Ring::stages;
  const auto parity = static_cast<uint32_t>(step / Ring::stages % 2);
  while (!mbarrier_try_wait_parity_cluster(ring.empty + place, 1 - parity)) continue;
  uint64_t* const full = ring.full + place;
  mbarrier_arrive_expect_tx(full, Ring::step_bytes);
  cp_async_bulk_tensor(ring.a_at(place), a, {l, row}, full);
  for (int panel = 64 * static_cast<int>(cluster_rank()); panel < Ring::BN; panel += 128)
    cp_async_bulk_tensor_multicast(ring.b_at(place) + bytes_of_b(panel), b, {column + panel, l},
                                   full, 0b11);
}

// A consumer: empty_place() that tells both blocks.
template <class Ring, int sums>
__device__ __forceinline__ void empty_both(const Ring& ring, int step, float (&d)[sums],
                                           int group) {
  const int place = step % Ring::stages;
  const auto parity = static_cast<uint32_t>(step / Ring::stages % 2);
  while (!mbarrier_try_wait_parity(ring.full + place, parity)) continue;
  multiply_step<Ring::BN>(d, ring.a_at(place) + group * bytes_of_a(64), ring.b_at(place));
  __syncwarp();
  if (threadIdx.x % 32 < 2) mbarrier_arrive_at(ring.empty + place, threadIdx.x % 32);
}

template <int BN, int stages, int consumers>
__global__ void __launch_bounds__(128 * (1 + consumers), 1)
    matmul_multicast(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                     float* __restrict__ c, int m, int n, int k) {
  using Ring = HopperRing<BN, stages, consumers>;
  __shared__ uint64_t full[stages], empty[stages];
  const Ring ring = make_shared_ring<Ring>(full, empty);
  const int row = static_cast<int>(blockIdx.y) * Ring::BM,
            column = static_cast<int>(blockIdx.x) * BN;
  const int steps = (k + hopper_BK - 1) / hopper_BK;
  if (threadIdx.x < 128) {
    setmaxnreg_dec<40>();
    if (threadIdx.x == 0)
      for (int step = 0; step < steps; ++step)
        fill_both(ring, step, &a, &b, row, column, step * hopper_BK);
  } else {
    setmaxnreg_inc<232>();
    const int group = static_cast<int>(threadIdx.x) / 128 - 1;
    float d[BN / 2] = {};
    for (int step = 0; step < steps; ++step) empty_both(ring, step, d, group);
    store_group<BN>(d, c, m, n, row + 64 * group, column);
  }
  cluster_sync();  // the other block may still arrive here
}

template <int BN, int stages, int consumers>
void launch_multicast(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                      cudaStream_t stream = nullptr) {
  using Ring = HopperRing<BN, stages, consumers>;
  dim3 grid = tiles_of(m, n, Ring::BM, BN);
  grid.y += grid.y % 2;
  launch_cluster(matmul_multicast<BN, stages, consumers>, grid, {1, 2}, Ring::threads, Ring::bytes,
                 stream, map_of_a(a, m, k, Ring::BM), map_of_b(b, k, n), c, m, n, k);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
