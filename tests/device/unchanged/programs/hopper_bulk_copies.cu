// y = a x + y by tiles that come and go as bulk copies: one warp starts them, the others compute,
// and mbarriers tell each side when a tile is there and when its place is free again.
#include <cuda/ptx>

#include <cstdio>
#include <vector>

#include "check.cuh"

namespace ptx = cuda::ptx;

constexpr int kTile = 256, kStages = 2, kWorkers = 128;

struct Pipeline {
  uint64_t full[kStages], empty[kStages];
};

__device__ void wait(uint64_t* barrier, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, barrier, parity)) {
  }
}

__device__ void load(float (&x)[kTile], float (&y)[kTile], const float* fromX, const float* fromY,
                     uint64_t* full) {
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full,
                                 2 * kTile * sizeof(float));
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, x, fromX, kTile * sizeof(float), full);
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, y, fromY, kTile * sizeof(float), full);
}

__global__ void saxpy(float a, const float* x, float* y, int tiles) {
  __shared__ alignas(128) float xs[kStages][kTile], ys[kStages][kTile];
  __shared__ Pipeline pipeline;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(&pipeline.full[s], 1);
      ptx::mbarrier_init(&pipeline.empty[s], kWorkers);
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();

  const bool brings = threadIdx.x >= kWorkers;
  int round = 0;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x, ++round) {
    const int s = round % kStages;
    const uint32_t parity = round / kStages % 2;
    if (brings) {
      if (threadIdx.x > kWorkers) continue;
      wait(&pipeline.empty[s], 1 - parity);
      if (round >= kStages) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared,
                           y + (size_t)(t - kStages * gridDim.x) * kTile, ys[s],
                           kTile * sizeof(float));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
      }
      load(xs[s], ys[s], x + (size_t)t * kTile, y + (size_t)t * kTile, &pipeline.full[s]);
    } else {
      wait(&pipeline.full[s], parity);
      for (int i = threadIdx.x; i < kTile; i += kWorkers) ys[s][i] += a * xs[s][i];
      ptx::fence_proxy_async(ptx::space_shared);
      ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &pipeline.empty[s]);
    }
  }

  // The last tiles are still in their places.
  if (threadIdx.x == kWorkers) {
    for (int r = round > kStages ? round - kStages : 0; r < round; ++r) {
      wait(&pipeline.empty[r % kStages], r / kStages % 2);
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared,
                         y + (size_t)(blockIdx.x + r * gridDim.x) * kTile, ys[r % kStages],
                         kTile * sizeof(float));
    }
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}

int main() {
  const int tiles = 17, n = tiles * kTile;
  const float a = 0.5f;
  std::vector<float> x(n), y(n), result(n);
  for (int i = 0; i < n; ++i) {
    x[i] = float(i % 97);
    y[i] = float(i % 31) - 10.0f;
  }
  float *deviceX, *deviceY;
  CUDA_CHECK(cudaMalloc(&deviceX, n * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&deviceY, n * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(deviceX, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(deviceY, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  saxpy<<<3, kWorkers + 32>>>(a, deviceX, deviceY, tiles);
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(result.data(), deviceY, n * sizeof(float), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(deviceX));
  CUDA_CHECK(cudaFree(deviceY));
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += result[i] != a * x[i] + y[i];
  printf("saxpy by bulk copies: %s\n", wrong == 0 ? "PASSED" : "FAILED");
  return wrong == 0 ? 0 : 1;
}
