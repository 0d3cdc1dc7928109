// Tensor cores, Hopper's fourth rung: a block stays, makes tile after tile of C, and stores one
// while the next is multiplied.
//
//     tensor_cores_hopper.hpp, a block a tile     ring fills | multiply ........ | store |
//                                                              the next block: ring fills | ...
//     here, producer     load tile 0 ........ | tile 1 ........ | tile 2 ........ | ...
//           consumers      multiply 0 ........ | multiply 1 ........ | multiply 2 ........
//           TMA                                | store 0           | store 1
//
// As many blocks as SMs are launched. Block i makes tiles i, i + blocks, ... of C, in the order
// of grouped_tile() (tensor_cores_pipeline.hpp), so that blocks which work at the same time
// share rows of A and columns of B in the L2. The ring knows nothing of tiles: steps are counted
// on, and while the consumers finish a tile the producer loads the first steps of the next one.
//
// A store by threads takes as long as memory takes. So sums go to shared memory, and TMA writes
// them to C by itself. A consumer has room for two slices of its 64 x BN sums, 64 x 32 each:
//
//     slice 0, 2, ...   room 0: wait until its last store has read, write, fence, barrier, store
//     slice 1, 3, ...   room 1: the same
//
// The barriers are of 128 threads, a named one for each consumer. What lies outside of C, TMA
// does not write: no guard is left in the kernel.
//
// Cost: a store that nothing hides takes exposed_store() of the time for multiplying, 7% for k =
// 8192 on an H100. Wavefronts: store_wavefronts() more per 4096 FLOPs. Contract: as in
// tensor_cores_hopper.hpp; any number of blocks. launch_persistent() makes the maps. References:
// Shankhdhar 2024, kernels 5 and 11; CUTLASS, "persistent" kernel schedules.
#pragma once

#include "yotta/device/tensor_cores_hopper.hpp"
#include "yotta/device/tensor_cores_pipeline.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Rows of 32 numbers of 32 bits, 128 bytes.
constexpr int slice_columns = 32, slice_bytes = 64 * slice_columns * 4;

template <class Ring>
constexpr size_t persistent_bytes() {
  return Ring::bytes + static_cast<size_t>(2 * Ring::consumers * slice_bytes);
}

// Where number `column` of a row lies in a slice, in bytes.
__host__ __device__ constexpr uint32_t place_in_slice(int row, int column) {
  return swizzled_byte(static_cast<uint32_t>(row * 128 + column * 4), Swizzle::b128);
}

// A consumer of this number stores its sums, slice after slice, into the box of C at (row, column).
// It waits for rooms, and not for C.
template <int BN>
__device__ __forceinline__ void store_slices(const float (&d)[BN / 2], char* rooms, int group,
                                             const CUtensorMap* c, int row, int column) {
  constexpr int a_slice = slice_columns / 2;  // sums of a thread
  const int thread = static_cast<int>(threadIdx.x) % 128;
  YOTTA_UNROLL
  for (int slice = 0; slice < BN / slice_columns; ++slice) {
    char* const room = rooms + slice % 2 * slice_bytes;
    if (thread == 0) cp_async_bulk_wait_group_read<1>();  // the store of two slices ago has read
    bar_sync(1 + group, 128);
    YOTTA_UNROLL
    for (int i = 0; i < a_slice; ++i) {
      const MatrixCell at = wgmma_cell(thread, i);
      *reinterpret_cast<float*>(room + place_in_slice(at.row, at.column)) = d[slice * a_slice + i];
    }
    fence_proxy_async();
    bar_sync(1 + group, 128);
    if (thread == 0) {
      cp_async_bulk_tensor(c, {column + slice * slice_columns, row}, room);
      cp_async_bulk_commit_group();
    }
  }
}

// The tiles of a block, one after the other: visit(row, column).
template <int BM, int BN, class Visit>
__device__ __forceinline__ void each_tile(int m, int n, Visit visit) {
  const int across = (n + BN - 1) / BN, down = (m + BM - 1) / BM;
  for (int tile = static_cast<int>(blockIdx.x); tile < across * down;
       tile += static_cast<int>(gridDim.x)) {
    const TilePosition at = grouped_tile(tile, across, down, 8);
    visit(at.row * BM, at.column * BN);
  }
}

template <int BN, int stages, int consumers>
__global__ void __launch_bounds__(128 * (1 + consumers), 1)
    matmul_persistent(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                      const __grid_constant__ CUtensorMap c, int m, int n, int k) {
  using Ring = HopperRing<BN, stages, consumers>;
  __shared__ uint64_t full[stages], empty[stages];
  const Ring ring = make_ring<Ring>(full, empty);
  const int steps = (k + hopper_BK - 1) / hopper_BK;
  int step = 0;  // of all tiles
  if (threadIdx.x < 128) {
    setmaxnreg_dec<40>();
    if (threadIdx.x == 0)
      each_tile<Ring::BM, BN>(m, n, [&](int row, int column) {
        for (int i = 0; i < steps; ++i, ++step)
          fill_place(ring, step, &a, &b, row, column, i * hopper_BK);
      });
    return;
  }
  setmaxnreg_inc<232>();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  char* const rooms = ring.a_at(stages) + 2 * group * slice_bytes;
  each_tile<Ring::BM, BN>(m, n, [&](int row, int column) {
    float d[BN / 2] = {};
    for (int i = 0; i < steps; ++i, ++step) empty_place(ring, step, d, group);
    store_slices<BN>(d, rooms, group, &c, row + 64 * group, column);
  });
  if (threadIdx.x % 128 == 0) cp_async_bulk_wait_group_read<0>();
}

template <int BN, int stages, int consumers>
void launch_persistent(const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k,
                       int blocks, cudaStream_t stream = nullptr) {
  using Ring = HopperRing<BN, stages, consumers>;
  const CUtensorMap of_c = tensor_map(c, {m, n}, {64, slice_columns}, Swizzle::b128);
  launch(matmul_persistent<BN, stages, consumers>, blocks, Ring::threads, persistent_bytes<Ring>(),
         stream, map_of_a(a, m, k, Ring::BM), map_of_b(b, k, n), of_c, m, n, k);
}

// The time to store a tile over that to multiply it: a product of length k has 2 k FLOPs for each 4
// bytes of C. `ridge`: FLOPs per byte from which on multiplying is slower than memory.
constexpr double exposed_store(double ridge, double k) { return 4 * ridge / (2 * k); }

// Wavefronts per 4096 FLOPs for C's way through shared memory, of 2048 / k numbers: 32 of them are
// written in two passes, since rows r and r + 1 of a pair of chunks share banks, and TMA reads them
// in one.
constexpr double store_wavefronts(double k) { return 2048 / k * 3 / 32; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
