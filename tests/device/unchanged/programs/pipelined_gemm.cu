// A matrix product whose tiles are on their way while others are used: by a pipeline of each
// thread, and by the block's barriers, one for each buffer.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

#include <cstdio>
#include <utility>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

constexpr int kTile = 16, kStages = 2;

struct Tiles {
  float a[kStages][kTile][kTile], b[kStages][kTile][kTile];
};

__device__ float multiply(const Tiles& tiles, int stage) {
  float sum = 0.0f;
  for (int k = 0; k < kTile; ++k)
    sum += tiles.a[stage][threadIdx.y][k] * tiles.b[stage][k][threadIdx.x];
  return sum;
}

// Each thread copies four numbers of a or b.
template <class Copy>
__device__ void copyTile(Tiles& tiles, int stage, const float* a, const float* b, int n, int t,
                         Copy copy) {
  const int thread = threadIdx.y * kTile + threadIdx.x;
  const int row = thread % 64 / 4, column = thread % 4 * 4;
  if (thread < 64)
    copy(&tiles.a[stage][row][column],
         a + (size_t)(blockIdx.y * kTile + row) * n + t * kTile + column);
  else if (thread < 128)
    copy(&tiles.b[stage][row][column],
         b + (size_t)(t * kTile + row) * n + blockIdx.x * kTile + column);
}

__global__ void gemmPipeline(const float* a, const float* b, float* c, int n) {
  __shared__ alignas(16) Tiles tiles;
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  const auto fetch = [&](int t) {
    pipe.producer_acquire();
    copyTile(tiles, t % kStages, a, b, n, t, [&](float* to, const float* from) {
      cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipe);
    });
    pipe.producer_commit();
  };
  const int steps = n / kTile;
  float sum = 0.0f;
  fetch(0);
  for (int t = 0; t < steps; ++t) {
    if (t + 1 < steps) fetch(t + 1);
    pipe.consumer_wait();
    __syncthreads();
    sum += multiply(tiles, t % kStages);
    __syncthreads();
    pipe.consumer_release();
  }
  c[(size_t)(blockIdx.y * kTile + threadIdx.y) * n + blockIdx.x * kTile + threadIdx.x] = sum;
}

__global__ void gemmBarrier(const float* a, const float* b, float* c, int n) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(16) Tiles tiles;
  __shared__ Barrier ready[kStages];
  auto block = cg::this_thread_block();
  if (block.thread_rank() < kStages) init(&ready[block.thread_rank()], block.size());
  block.sync();
  const auto fetch = [&](int t) {
    const int stage = t % kStages;
    for (int row = 0; row < kTile; ++row) {
      cuda::memcpy_async(block, tiles.a[stage][row],
                         a + (size_t)(blockIdx.y * kTile + row) * n + t * kTile,
                         sizeof(float) * kTile, ready[stage]);
      cuda::memcpy_async(block, tiles.b[stage][row],
                         b + (size_t)(t * kTile + row) * n + blockIdx.x * kTile,
                         cuda::aligned_size_t<16>(sizeof(float) * kTile), ready[stage]);
    }
  };
  const int steps = n / kTile;
  float sum = 0.0f;
  fetch(0);
  for (int t = 0; t < steps; ++t) {
    if (t + 1 < steps) fetch(t + 1);
    ready[t % kStages].arrive_and_wait();
    sum += multiply(tiles, t % kStages);
    block.sync();
  }
  c[(size_t)(blockIdx.y * kTile + threadIdx.y) * n + blockIdx.x * kTile + threadIdx.x] = sum;
}

int main() {
  const int n = 4 * kTile;
  float *a, *b, *c;
  CUDA_CHECK(cudaMallocManaged(&a, n * n * sizeof(float)));
  CUDA_CHECK(cudaMallocManaged(&b, n * n * sizeof(float)));
  CUDA_CHECK(cudaMallocManaged(&c, n * n * sizeof(float)));
  std::vector<double> expected(n * n, 0.0);
  for (int i = 0; i < n * n; ++i) {
    a[i] = (float)((i * 37) % 19) - 9;
    b[i] = (float)((i * 53) % 23) - 11;
  }
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j) expected[i * n + j] += (double)a[i * n + k] * b[k * n + j];
  const dim3 grid(n / kTile, n / kTile), block(kTile, kTile);
  for (const auto& [name, kernel] :
       {std::make_pair("pipeline", gemmPipeline), std::make_pair("barrier", gemmBarrier)}) {
    CUDA_CHECK(cudaMemset(c, 0xff, n * n * sizeof(float)));
    kernel<<<grid, block>>>(a, b, c, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n * n; ++i)
      if (!close_to(c[i], expected[i]))
        return printf("%s: %d: %g, not %g\n", name, i, c[i], expected[i]), 1;
  }
  CUDA_CHECK(cudaFree(a));
  CUDA_CHECK(cudaFree(b));
  CUDA_CHECK(cudaFree(c));
  return 0;
}
