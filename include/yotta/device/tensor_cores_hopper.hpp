// Tensor cores, Hopper's third rung: threads that only load, threads that only multiply, and
// between them a ring of tiles.
//
//     group 0, one thread    wait for an empty place ─► TMA loads a tile of A and one of B ─► ...
//                                  ▲ empty                       │ full (its bytes have come)
//     groups 1, 2, ...       ...  arrive ◄─ wgmma of the tile ◄──┘ wait
//
// In tensor_cores_tma.hpp the thread that starts copies multiplies, too: a copy starts when all
// warps have met at a barrier. Here no warp that multiplies waits for another one. A second
// mbarrier for each place, `empty`, says that all consumers are done with it; the producer runs
// ahead until the ring is full.
//
// Several consumers, groups of four warps, share a block's tiles: each multiplies its own 64
// rows of A by the same B. So a block makes 64 x consumers x BN of C, and while one group waits
// for its wgmma another one's is at work.
//
// Registers. A consumer's thread holds BN / 2 sums, the producer's none; but a launch gives all
// threads the same number. setmaxnreg moves registers from one group to the others:
//
//     consumers   threads   at launch     producer   consumer    all together
//     1           256       232           40         232         34,816 of 65,536
//     2           384       168           40         232         64,512
//
// Parities. Step s is the (s / stages)th at its place. The consumers wait for `full` with the
// parity of that number, as before. The producer waits for `empty` with the other parity: a new
// mbarrier says of parity 1 that it is complete, since the phase before its first one has it. So
// the first `stages` waits pass at once: all places are empty.
//
// Contract: k and n multiples of 8 (rows begin at multiples of 16 bytes), m, n, k >= 1; BN a
// multiple of 64; one or two consumers. launch_producer() makes the maps. sm_90a. Cost: from
// memory BM BN / (BM + BN) FLOPs a byte (tensor_cores.hpp). References: Shankhdhar 2024,
// "Outperforming cuBLAS on H100: a worklog"; PTX ISA, setmaxnreg; CUTLASS, "Efficient GEMM in
// CUDA" (warp specialization).
#pragma once

#include "yotta/device/tensor_cores_tma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A ring with a way back.
template <int BN, int stages, int consumers_>
struct HopperRing : TileRing<64 * consumers_, BN, stages> {
  static constexpr int consumers = consumers_, threads = 128 * (1 + consumers);
  uint64_t* empty;  // an mbarrier for each place: its tiles have been multiplied
};

// The producer, one thread: copies the tiles of the step of this number into its place, as soon as
// that is empty.
template <class Ring>
__device__ void fill_place(const Ring& ring, int step, const CUtensorMap* a, const CUtensorMap* b,
                           int row, int column, int l) {
  const int place = step % Ring::stages;
  const auto parity = static_cast<uint32_t>(step / Ring::stages % 2);
  while (!mbarrier_try_wait_parity(ring.empty + place, 1 - parity)) continue;
  mbarrier_arrive_expect_tx(ring.full + place, Ring::step_bytes);
  copy_tiles(ring, place, a, b, row, column, l);
}

// A consumer, the warp group of this number: adds the product of the step's tiles to d, as soon as
// they are there, and says that it is done with them.
template <class Ring, int sums>
__device__ void empty_place(const Ring& ring, int step, float (&d)[sums], int group) {
  const int place = step % Ring::stages;
  const auto parity = static_cast<uint32_t>(step / Ring::stages % 2);
  while (!mbarrier_try_wait_parity(ring.full + place, parity)) continue;
  multiply_step<Ring::BN>(d, ring.a_at(place) + group * bytes_of_a(64), ring.b_at(place));
  mbarrier_arrive(ring.empty + place);
}

// All threads: the ring of a block, with its mbarriers in shared memory, ready to be used.
template <class Ring>
__device__ Ring make_ring(uint64_t* full, uint64_t* empty) {
  if (threadIdx.x == 0) {
    for (int place = 0; place < Ring::stages; ++place) {
      mbarrier_init(full + place, 1);
      mbarrier_init(empty + place, 128 * Ring::consumers);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  return {{aligned_tiles(), full}, empty};
}

template <int BN, int stages, int consumers>
__global__ void __launch_bounds__(128 * (1 + consumers), 1)
    matmul_producer(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                    float* __restrict__ c, int m, int n, int k) {
  using Ring = HopperRing<BN, stages, consumers>;
  __shared__ uint64_t full[stages], empty[stages];
  const Ring ring = make_ring<Ring>(full, empty);
  const int row = static_cast<int>(blockIdx.y) * Ring::BM,
            column = static_cast<int>(blockIdx.x) * BN;
  const int steps = (k + hopper_BK - 1) / hopper_BK;
  if (threadIdx.x < 128) {
    setmaxnreg_dec<40>();
    if (threadIdx.x == 0)
      for (int step = 0; step < steps; ++step)
        fill_place(ring, step, &a, &b, row, column, step * hopper_BK);
    return;
  }
  setmaxnreg_inc<232>();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  float d[BN / 2] = {};
  for (int step = 0; step < steps; ++step) empty_place(ring, step, d, group);
  store_group<BN>(d, c, m, n, row + 64 * group, column);
}

template <int BN, int stages, int consumers>
void launch_producer(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                     cudaStream_t stream = nullptr) {
  using Ring = HopperRing<BN, stages, consumers>;
  launch(matmul_producer<BN, stages, consumers>, tiles_of(m, n, Ring::BM, BN), Ring::threads,
         Ring::bytes, stream, map_of_a(a, m, k, Ring::BM), map_of_b(b, k, n), c, m, n, k);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
