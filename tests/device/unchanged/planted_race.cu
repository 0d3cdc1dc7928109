// Means of neighbours, without the barrier that they need: the emulator's checks name the line.
#include <cuda_runtime.h>

#include <cstdio>

#include "programs/check.cuh"

__global__ void blur(float* y, const float* x, int n) {
  __shared__ float tile[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = x[i];
  y[i] = 0.5f * (tile[threadIdx.x] + tile[(threadIdx.x + 1) % 128]);  // the race
}

int main() {
  const int n = 256;
  float *x, *y;
  CUDA_CHECK(cudaMalloc(&x, n * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&y, n * sizeof(float)));
  CUDA_CHECK(cudaMemset(x, 0, n * sizeof(float)));
  blur<<<n / 128, 128>>>(y, x, n);
  CUDA_CHECK(cudaDeviceSynchronize());
  printf("no race was found\n");
  return 0;
}
