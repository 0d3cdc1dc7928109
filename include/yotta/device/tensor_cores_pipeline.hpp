// Tensor cores, last rung: the copies of the next tiles run while the tensor cores multiply this
// one.
//
//     tensor_cores_tile.hpp   copy 0 | multiply 0 | copy 1 | multiply 1 | copy 2 | ...
//     here, 3 stages          copy 0 copy 1 | copy 2     | copy 3     | copy 4     | ...
//                                           | multiply 0 | multiply 1 | multiply 2 | ...
//
// cp.async moves 16 bytes from memory to shared memory by itself: no register holds them, no thread
// waits. `stages` tiles of A and of B lie in a ring in shared memory; stages - 1 are on their way
// while one is multiplied.
//
//     ring of 3, step 4:   [ tile 3: done, tile 6 comes here ] [ 4: multiplied ]  [ 5: on its way ]
//
// One barrier per step does two things: behind it every thread sees what the others have copied,
// and everyone has finished with the tile of the step before, whose place the next copy takes.
//
// A second idea costs one function: blocks that run at the same time should share rows of A and
// columns of B in the L2 cache. grouped_tile() walks through C in strips of 8 tiles' height instead
// of row by row.
//
// Cost: stages (BM + BN) BK 2 bytes of shared memory; memory traffic and FLOPs as in
// tensor_cores_tile.hpp.
// Contract: as there; dynamic shared memory pipeline_bytes<T, stages>(); 2 stages or more. Rows
// that are not 16-byte aligned (k or n no multiple of 8) are copied through registers: right, but
// without overlap.
// References: PTX ISA, "Data movement: cp.async"; CUTLASS, "Efficient GEMM in CUDA" (pipelining,
// threadblock swizzle).
#pragma once

#include "yotta/device/cp_async.hpp"
#include "yotta/device/tensor_cores_tile.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Bytes of dynamic shared memory that the kernel needs.
template <class T, int stages>
constexpr size_t pipeline_bytes() {
  return size_t{2} * stages * (T::BM + T::BN) * T::BK;
}

// The tile of C that a block makes: down first, in strips `height` tiles high, so that blocks that
// run together use few rows of A and few columns of B.
struct TilePosition {
  int row, column;
};
__host__ __device__ constexpr TilePosition grouped_tile(int block, int across, int down,
                                                        int height) {
  const int strip = block / (height * across), first = strip * height;
  const int rows = down - first < height ? down - first : height;  // the last strip may be lower
  const int inside = block - strip * height * across;
  return {first + inside % rows, inside / rows};
}

// copy_tile() without waiting.
template <int height, int width, int threads>
__device__ void copy_tile_async(uint16_t* tile, const Bf16Matrix& matrix, int row, int column) {
  constexpr int chunks = height * width / 8;
  const bool aligned = matrix.columns % 8 == 0;
  for (int first = 0; first < chunks; first += threads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (i >= chunks) break;
    const int r = row + i / (width / 8), l = column + 8 * (i % (width / 8));
    uint16_t* to = tile + place<width, Rows::swizzled>(i / (width / 8), i % (width / 8));
    const bool inside = r < matrix.rows && l < matrix.columns;
    const bfloat16* from = matrix.data + (inside ? int64_t{r} * matrix.columns + l : 0);
    if (aligned)
      cp_async<16>(to, from, inside ? 16 : 0);  // 0 bytes: 16 zeros are written, nothing is read
    else
      *reinterpret_cast<int4*>(to) = load_chunk(matrix, r, l);
  }
}

// C = A B with `stages` tiles in flight.
template <class T, int stages>
__global__ void __launch_bounds__(T::threads)
    matmul_pipeline(const bfloat16* __restrict__ a, const bfloat16* __restrict__ b,
                    float* __restrict__ c, int m, int n, int k) {
  constexpr int size_a = T::BM * T::BK, size = size_a + T::BK * T::BN;
  uint16_t* ring = dynamic_shared<uint16_t>();
  const int across = static_cast<int>(gridDim.x), down = static_cast<int>(gridDim.y);
  const TilePosition at = grouped_tile(
      static_cast<int>(blockIdx.y) * across + static_cast<int>(blockIdx.x), across, down, 8);
  const int row = at.row * T::BM, column = at.column * T::BN;
  const int steps = (k + T::BK - 1) / T::BK;
  const auto copy = [&](int step) {
    uint16_t* tiles = ring + step % stages * size;
    if (step < steps) {
      copy_tile_async<T::BM, T::BK, T::threads>(tiles, {a, m, k}, row, step * T::BK);
      copy_tile_async<T::BK, T::BN, T::threads>(tiles + size_a, {b, k, n}, step * T::BK, column);
    }
    cp_async_commit();  // one group per step, empty at the end: counting groups counts steps
  };
  WarpSum<T> sum = {};
  for (int step = 0; step < stages - 1; ++step) copy(step);
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<stages - 2>();  // all groups but the last stages - 2 have landed: this step's has
    __syncthreads();
    copy(step + stages - 1);
    const uint16_t* tiles = ring + step % stages * size;
    multiply_tiles<T, Loads::ldmatrix, Rows::swizzled>(sum, tiles, tiles + size_a);
  }
  store_sum<T>(sum, c, m, n, row, column);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
