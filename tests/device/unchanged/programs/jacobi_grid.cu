// Heat on a plate until nothing changes much, in one cooperative launch: the grid meets after each
// step.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

__global__ void jacobi(float* a, float* b, float* residual, int n, int steps) {
  cg::grid_group grid = cg::this_grid();
  for (int step = 0; step < steps; ++step) {
    if (grid.thread_rank() == 0) *residual = 0.0f;
    grid.sync();
    float mine = 0.0f;
    for (unsigned long long i = grid.thread_rank(); i < (unsigned long long)(n - 2) * (n - 2);
         i += grid.size()) {
      const int x = 1 + i % (n - 2), y = 1 + i / (n - 2), at = y * n + x;
      b[at] = 0.25f * (a[at - 1] + a[at + 1] + a[at - n] + a[at + n]);
      mine += fabsf(b[at] - a[at]);
    }
    for (int offset = 16; offset > 0; offset >>= 1)
      mine += __shfl_down_sync(0xffffffff, mine, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(residual, mine);
    grid.sync();
    float* t = a;
    a = b;
    b = t;
  }
}

int main() {
  int n = 34, steps = 20;
  std::vector<float> plate(n * n, 0.0f), next, out(n * n);
  for (int i = 0; i < n; ++i) plate[i] = 100.0f;
  float *a, *b, *residual, r = 0;
  CUDA_CHECK(cudaMalloc(&a, n * n * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&b, n * n * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&residual, sizeof(float)));
  CUDA_CHECK(cudaMemcpy(a, plate.data(), n * n * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(b, a, n * n * sizeof(float), cudaMemcpyDeviceToDevice));

  cudaDeviceProp prop;
  CUDA_CHECK(cudaGetDeviceProperties(&prop, 0));
  int perSm = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perSm, jacobi, 64, 0));
  const int blocks = std::min(6, perSm * prop.multiProcessorCount);
  void* args[] = {(void*)&a, (void*)&b, (void*)&residual, (void*)&n, (void*)&steps};
  CUDA_CHECK(cudaLaunchCooperativeKernel((void*)jacobi, blocks, 64, args, 0, nullptr));
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(out.data(), a, n * n * sizeof(float), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(&r, residual, sizeof r, cudaMemcpyDeviceToHost));
  double last = 0;
  for (int step = 0; step < steps; ++step) {
    next = plate;
    last = 0;
    for (int y = 1; y < n - 1; ++y)
      for (int x = 1; x < n - 1; ++x) {
        const int at = y * n + x;
        next[at] = 0.25f * (plate[at - 1] + plate[at + 1] + plate[at - n] + plate[at + n]);
        last += std::fabs(next[at] - plate[at]);
      }
    std::swap(plate, next);
  }
  for (int i = 0; i < n * n; ++i)
    if (!close_to(out[i], plate[i])) return printf("point %d: %g, %g\n", i, out[i], plate[i]), 1;
  return close_to(r, last) ? 0 : 1;
}
