// A separable filter: rows, then columns, with the filter in constant memory and tiles with a halo.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

#define KERNEL_RADIUS 3
#define KERNEL_LENGTH (2 * KERNEL_RADIUS + 1)
#define TILE 16

static __constant__ float c_Kernel[KERNEL_LENGTH];

__global__ void convolutionRows(float* d_Dst, const float* d_Src, int w, int h, size_t pitch) {
  __shared__ float s_Data[TILE][TILE + 2 * KERNEL_RADIUS];
  const int x0 = blockIdx.x * TILE - KERNEL_RADIUS, y = blockIdx.y * TILE + threadIdx.y;
  for (int i = threadIdx.x; i < TILE + 2 * KERNEL_RADIUS; i += TILE)
    s_Data[threadIdx.y][i] = (y < h && x0 + i >= 0 && x0 + i < w) ? d_Src[y * pitch + x0 + i] : 0;
  __syncthreads();
  const int x = blockIdx.x * TILE + threadIdx.x;
  if (x >= w || y >= h) return;
  float sum = 0;
#pragma unroll
  for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++)
    sum += c_Kernel[KERNEL_RADIUS - j] * s_Data[threadIdx.y][threadIdx.x + KERNEL_RADIUS + j];
  d_Dst[y * pitch + x] = sum;
}

__global__ void convolutionColumns(float* d_Dst, const float* d_Src, int w, int h, size_t pitch) {
  __shared__ float s_Data[TILE + 2 * KERNEL_RADIUS][TILE + 1];
  const int x = blockIdx.x * TILE + threadIdx.x, y0 = blockIdx.y * TILE - KERNEL_RADIUS;
  for (int i = threadIdx.y; i < TILE + 2 * KERNEL_RADIUS; i += TILE)
    s_Data[i][threadIdx.x] = (x < w && y0 + i >= 0 && y0 + i < h) ? d_Src[(y0 + i) * pitch + x] : 0;
  __syncthreads();
  const int y = blockIdx.y * TILE + threadIdx.y;
  if (x >= w || y >= h) return;
  float sum = 0;
#pragma unroll
  for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++)
    sum += c_Kernel[KERNEL_RADIUS - j] * s_Data[threadIdx.y + KERNEL_RADIUS + j][threadIdx.x];
  d_Dst[y * pitch + x] = sum;
}

int main() {
  const int w = 50, h = 37;
  float filter[KERNEL_LENGTH];
  for (int i = 0; i < KERNEL_LENGTH; ++i) filter[i] = i + 1;
  std::vector<float> src(w * h), dst(w * h);
  for (int i = 0; i < w * h; ++i) src[i] = i * 31 % 17;
  float *d_a, *d_b;
  size_t bytes;
  CUDA_CHECK(cudaMallocPitch((void**)&d_a, &bytes, w * sizeof(float), h));
  CUDA_CHECK(cudaMallocPitch((void**)&d_b, &bytes, w * sizeof(float), h));
  CUDA_CHECK(cudaMemcpyToSymbol(c_Kernel, filter, sizeof filter));
  CUDA_CHECK(cudaMemcpy2D(d_a, bytes, src.data(), w * sizeof(float), w * sizeof(float), h,
                          cudaMemcpyHostToDevice));
  dim3 blocks((w + TILE - 1) / TILE, (h + TILE - 1) / TILE), threads(TILE, TILE);
  convolutionRows<<<blocks, threads>>>(d_b, d_a, w, h, bytes / sizeof(float));
  convolutionColumns<<<blocks, threads>>>(d_a, d_b, w, h, bytes / sizeof(float));
  CUDA_CHECK(cudaMemcpy2D(dst.data(), w * sizeof(float), d_a, bytes, w * sizeof(float), h,
                          cudaMemcpyDeviceToHost));
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      double sum = 0;
      for (int i = -KERNEL_RADIUS; i <= KERNEL_RADIUS; ++i)
        for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; ++j)
          if (x + j >= 0 && x + j < w && y + i >= 0 && y + i < h)
            sum += filter[KERNEL_RADIUS - i] * filter[KERNEL_RADIUS - j] * src[(y + i) * w + x + j];
      if (!close_to(dst[y * w + x], sum)) return printf("point %d, %d is wrong\n", x, y), 1;
    }
  return 0;
}
