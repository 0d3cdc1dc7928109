// Tensor cores, Hopper's way: threads that only load, threads that only multiply, and between them
// a ring of tiles. No number of A and B passes through a register.
//
//     group 0, one thread    wait for an empty place ─► TMA loads a tile of A and one of B ─► ...
//                                  ▲ empty                       │ full (its bytes have come)
//     group 1, four warps    ...  arrive ◄─ wgmma of the tile ◄──┘ wait
//
// A block makes 64 x BN of C in steps of 64 along k, with `stages` places in the ring. TMA writes
// the tiles with swizzles of 128 bytes, and wgmma reads them so: A with k along its rows, B, which
// lies by rows too, with n along them. TMA puts zeros outside of the matrices, so a tile that hangs
// over multiplies zeros, and only stores need a guard.
//
// Contract: A (m, k), B (k, n), C (m, n) by rows; k and n multiples of 8 (rows begin at multiples
// of 16 bytes), m, n, k >= 1. launch_wgmma() makes the maps. sm_90a. Cost: from memory BM BN / (BM
// + BN) FLOPs a byte (tensor_cores.hpp), from shared memory nothing that threads wait for.
// References: Shankhdhar 2024, "Outperforming cuBLAS on H100: a worklog"; PTX ISA, wgmma.
#pragma once

#include "yotta/device/cp_async_bulk_tensor.hpp"
#include "yotta/device/warp_groups.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

template <int BN, int stages>
struct HopperRing {
  static constexpr int BM = 64, BK = 64;
  static constexpr uint32_t a_bytes = BM * BK * 2, b_bytes = BK * BN * 2;
  static constexpr size_t bytes = 1024 + stages * (a_bytes + b_bytes);  // of shared memory

  char *a, *b;  // the places, one after the other
  uint64_t *full, *empty;

  __device__ char* a_at(int place) const { return a + place * static_cast<int>(a_bytes); }
  __device__ char* b_at(int place) const { return b + place * static_cast<int>(b_bytes); }
};

// One thread: fills place after place.
template <int BN, int stages>
__device__ void load_tiles(const HopperRing<BN, stages>& ring, const CUtensorMap* a,
                           const CUtensorMap* b, int row, int column, int steps) {
  using Ring = HopperRing<BN, stages>;
  for (int step = 0; step < steps; ++step) {
    const int place = step % stages;
    const uint32_t parity = static_cast<uint32_t>(step / stages) % 2;
    while (!mbarrier_try_wait_parity(ring.empty + place, 1 - parity)) continue;
    uint64_t* const full = ring.full + place;
    mbarrier_arrive_expect_tx(full, Ring::a_bytes + Ring::b_bytes);
    cp_async_bulk_tensor(ring.a_at(place), a, {step * Ring::BK, row}, full);
    for (int i = 0; i < BN; i += 64)
      cp_async_bulk_tensor(ring.b_at(place) + i * Ring::BK * 2, b, {column + i, step * Ring::BK},
                           full);
  }
}

// Four warps: d is the sum over all tiles, in the order in which they come.
template <int BN, int stages>
__device__ void multiply_tiles(const HopperRing<BN, stages>& ring, float (&d)[BN / 2], int steps) {
  constexpr int BK = HopperRing<BN, stages>::BK;
  for (int step = 0; step < steps; ++step) {
    const int place = step % stages;
    while (!mbarrier_try_wait_parity(ring.full + place, static_cast<uint32_t>(step / stages) % 2))
      continue;
    const uint64_t a = wgmma_descriptor(ring.a_at(place), 0, 1024, Swizzle::b128);
    const uint64_t b = wgmma_descriptor(ring.b_at(place), BK * 128, 1024, Swizzle::b128);
    wgmma_fence();
    for (int k = 0; k < BK / 16; ++k)  // 16 of k: 32 bytes of a row of A, 16 rows of 128 of B
      wgmma<BN, bfloat16, Major::k, Major::mn>(d, a + static_cast<uint64_t>(2 * k),
                                               b + static_cast<uint64_t>(128 * k),
                                               step > 0 || k > 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    mbarrier_arrive(ring.empty + place);
  }
}

template <int BN, int stages>
__global__ void __launch_bounds__(256, 1)
    matmul_wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                 float* c, int m, int n, int k) {
  __shared__ uint64_t full[stages], empty[stages];
  using Ring = HopperRing<BN, stages>;
  char* tiles = dynamic_shared<char>();
  tiles += (1024 - reinterpret_cast<uintptr_t>(tiles) % 1024) % 1024;  // where swizzles begin
  const Ring ring{tiles, tiles + stages * static_cast<int>(Ring::a_bytes), full, empty};
  const int row = static_cast<int>(blockIdx.y) * Ring::BM,
            column = static_cast<int>(blockIdx.x) * BN;
  const int steps = (k + Ring::BK - 1) / Ring::BK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) {
      mbarrier_init(full + i, 1);
      mbarrier_init(empty + i, 128);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    setmaxnreg_dec<40>();
    if (threadIdx.x == 0) load_tiles(ring, &a, &b, row, column, steps);
    return;
  }
  setmaxnreg_inc<232>();
  float d[BN / 2];
  multiply_tiles(ring, d, steps);
  for (int i = 0; i < BN / 2; ++i) {
    const MatrixCell at = wgmma_cell(static_cast<int>(threadIdx.x) - 128, i);
    if (row + at.row < m && column + at.column < n)
      c[int64_t{row + at.row} * n + column + at.column] = d[i];
  }
}

template <int BN, int stages>
void launch_wgmma(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                  cudaStream_t stream = nullptr) {
  const CUtensorMap of_a = tensor_map(a, {m, k}, {64, 64}, Swizzle::b128);
  const CUtensorMap of_b = tensor_map(b, {k, n}, {64, 64}, Swizzle::b128);
  const dim3 grid(static_cast<unsigned>((n + BN - 1) / BN), static_cast<unsigned>((m + 63) / 64));
  launch(matmul_wgmma<BN, stages>, grid, 256, HopperRing<BN, stages>::bytes, stream, of_a, of_b, c,
         m, n, k);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
