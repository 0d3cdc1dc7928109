// The pipelined kernel once more, in the words of CUDA C++: matmul_pipeline()
// (tensor_cores_pipeline.hpp) with cuda::pipeline in place of cp.async. Instructions, counts and
// results are the same; code of NVIDIA's and of many others is written so.
//
// One thing differs. memcpy_async copies whole chunks, and has no zeros for what lies beyond the
// edges: those are stored.
//
// Cost and contract: as matmul_pipeline().
// Reference: CUDA C++ Programming Guide, "Asynchronous Data Copies using cuda::pipeline".
#pragma once

#include "yotta/device/cuda_pipeline.hpp"
#include "yotta/device/tensor_cores_pipeline.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

using ThreadPipeline = cuda::pipeline<cuda::thread_scope_thread>;

// copy_tile() without waiting.
template <int height, int width, int threads>
__device__ void copy_tile_async(uint16_t* tile, const Bf16Matrix& matrix, int row, int column,
                                ThreadPipeline& pipe) {
  constexpr int chunks = height * width / 8;
  for (int i = static_cast<int>(threadIdx.x); i < chunks; i += threads) {
    const int r = row + i / (width / 8), l = column + 8 * (i % (width / 8));
    uint16_t* to = tile + place<width, Rows::swizzled>(i / (width / 8), i % (width / 8));
    const bool whole = matrix.columns % 8 == 0 && r < matrix.rows && l < matrix.columns;
    if (whole)
      cuda::memcpy_async(to, matrix.data + int64_t{r} * matrix.columns + l,
                         cuda::aligned_size_t<16>(16), pipe);
    else
      *reinterpret_cast<int4*>(to) = load_chunk(matrix, r, l);
  }
}

// C = A B with `stages` tiles in flight.
template <class T, int stages>
__global__ void __launch_bounds__(T::threads)
    matmul_cuda_pipeline(const bfloat16* __restrict__ a, const bfloat16* __restrict__ b,
                         float* __restrict__ c, int m, int n, int k) {
  constexpr int size_a = T::BM * T::BK, size = size_a + T::BK * T::BN;
  uint16_t* ring = dynamic_shared<uint16_t>();
  const int across = static_cast<int>(gridDim.x), down = static_cast<int>(gridDim.y);
  const TilePosition at = grouped_tile(
      static_cast<int>(blockIdx.y) * across + static_cast<int>(blockIdx.x), across, down, 8);
  const int row = at.row * T::BM, column = at.column * T::BN;
  const int steps = (k + T::BK - 1) / T::BK;
  ThreadPipeline pipe = cuda::make_pipeline();
  const auto copy = [&](int step) {
    uint16_t* tiles = ring + step % stages * size;
    pipe.producer_acquire();
    if (step < steps) {
      copy_tile_async<T::BM, T::BK, T::threads>(tiles, {a, m, k}, row, step * T::BK, pipe);
      copy_tile_async<T::BK, T::BN, T::threads>(tiles + size_a, {b, k, n}, step * T::BK, column,
                                                pipe);
    }
    pipe.producer_commit();  // one stage per step, empty at the end
  };
  WarpSum<T> sum = {};
  for (int step = 0; step < stages - 1; ++step) copy(step);
  for (int step = 0; step < steps; ++step) {
    cuda::pipeline_consumer_wait_prior<stages - 2>(pipe);
    __syncthreads();
    copy(step + stages - 1);
    const uint16_t* tiles = ring + step % stages * size;
    multiply_tiles<T, Loads::ldmatrix, Rows::swizzled>(sum, tiles, tiles + size_a);
    pipe.consumer_release();
  }
  store_sum<T>(sum, c, m, n, row, column);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
