// A stencil in three dimensions, as in finite differences for waves: a block keeps one plane in
// shared memory and marches along z with a queue of values in registers.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

constexpr int kRadius = 4, kBlockX = 16, kBlockY = 8;

__constant__ float c_coeff[kRadius + 1];

__global__ void stencil(float* __restrict__ output, const float* __restrict__ input, int dimx,
                        int dimy, int dimz) {
  __shared__ float tile[kBlockY + 2 * kRadius][kBlockX + 2 * kRadius];
  const int ltidx = threadIdx.x, ltidy = threadIdx.y;
  const int gtidx = blockIdx.x * blockDim.x + ltidx, gtidy = blockIdx.y * blockDim.y + ltidy;
  const int outer = dimx + 2 * kRadius, stride_z = outer * (dimy + 2 * kRadius);
  const int tx = ltidx + kRadius, ty = ltidy + kRadius;
  const bool inside = gtidx < dimx && gtidy < dimy;
  int at = (gtidy + kRadius) * outer + gtidx + kRadius;

  float behind[kRadius], infront[kRadius], current = 0.0f;
  if (inside) {
#pragma unroll
    for (int i = 0; i < kRadius; i++) behind[kRadius - 1 - i] = input[at + i * stride_z];
    current = input[at + kRadius * stride_z];
#pragma unroll
    for (int i = 0; i < kRadius; i++) infront[i] = input[at + (kRadius + 1 + i) * stride_z];
  }
  at += kRadius * stride_z;

  for (int z = 0; z < dimz; z++) {
    __syncthreads();
    if (inside) {
      if (ltidy < kRadius) tile[ltidy][tx] = input[at - kRadius * outer];
      if (ltidy >= blockDim.y - kRadius || gtidy >= dimy - kRadius)
        tile[ty + kRadius][tx] = input[at + kRadius * outer];
      if (ltidx < kRadius) tile[ty][ltidx] = input[at - kRadius];
      if (ltidx >= blockDim.x - kRadius || gtidx >= dimx - kRadius)
        tile[ty][tx + kRadius] = input[at + kRadius];
      tile[ty][tx] = current;
    }
    __syncthreads();
    if (inside) {
      float value = c_coeff[0] * current;
#pragma unroll
      for (int i = 1; i <= kRadius; i++)
        value += c_coeff[i] * (infront[i - 1] + behind[i - 1] + tile[ty - i][tx] +
                               tile[ty + i][tx] + tile[ty][tx - i] + tile[ty][tx + i]);
      output[at] = value;
#pragma unroll
      for (int i = kRadius - 1; i > 0; i--) behind[i] = behind[i - 1];
      behind[0] = current;
      current = infront[0];
#pragma unroll
      for (int i = 0; i < kRadius - 1; i++) infront[i] = infront[i + 1];
      if (z + 1 < dimz) infront[kRadius - 1] = input[at + (kRadius + 1) * stride_z];
    }
    at += stride_z;
  }
}

int main() {
  const int dimx = 37, dimy = 21, dimz = 6;
  const int ox = dimx + 2 * kRadius, oy = dimy + 2 * kRadius, oz = dimz + 2 * kRadius;
  const size_t volume = (size_t)ox * oy * oz, bytes = volume * sizeof(float);
  std::vector<float> in(volume), out(volume, 0.0f);
  for (size_t i = 0; i < volume; ++i) in[i] = (float)((i * 7919) % 101) / 101.0f;
  float coeff[kRadius + 1];
  for (int i = 0; i <= kRadius; ++i) coeff[i] = 0.1f * (i + 1);
  float *dIn, *dOut;
  CUDA_CHECK(cudaMalloc((void**)&dIn, bytes));
  CUDA_CHECK(cudaMalloc((void**)&dOut, bytes));
  CUDA_CHECK(cudaMemcpy(dIn, in.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemset(dOut, 0, bytes));
  CUDA_CHECK(cudaMemcpyToSymbol(c_coeff, coeff, sizeof coeff));
  dim3 block(kBlockX, kBlockY),
      grid((dimx + kBlockX - 1) / kBlockX, (dimy + kBlockY - 1) / kBlockY);
  stencil<<<grid, block>>>(dOut, dIn, dimx, dimy, dimz);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpy(out.data(), dOut, bytes, cudaMemcpyDeviceToHost));
  for (int z = kRadius; z < oz - kRadius; ++z)
    for (int y = kRadius; y < oy - kRadius; ++y)
      for (int x = kRadius; x < ox - kRadius; ++x) {
        const size_t at = ((size_t)z * oy + y) * ox + x;
        double value = coeff[0] * in[at];
        for (int i = 1; i <= kRadius; ++i)
          value += coeff[i] * (in[at - i] + in[at + i] + in[at - i * ox] + in[at + i * ox] +
                               in[at - (size_t)i * ox * oy] + in[at + (size_t)i * ox * oy]);
        if (!close_to(out[at], value))
          return printf("%d %d %d: %g, %g\n", x, y, z, out[at], value), 1;
      }
  cudaFree(dIn);
  cudaFree(dOut);
  return 0;
}
