// A matrix transposed: straight, through a tile of shared memory, and with a tile whose rows are
// one word longer.
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>

#include "check.cuh"

const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;

__global__ void transposeNaive(float* odata, const float* idata, int width, int height) {
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height) odata[x * height + (y + j)] = idata[(y + j) * width + x];
}

template <int Pad>
__global__ void transposeTile(float* odata, const float* idata, int width, int height) {
  __shared__ float tile[TILE_DIM][TILE_DIM + Pad];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
#pragma unroll
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height)
      tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
#pragma unroll
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < height && y + j < width)
      odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main(int argc, char** argv) {
  const int nx = argc > 1 ? atoi(argv[1]) : 100, ny = 70;
  const size_t mem_size = nx * ny * sizeof(float);
  dim3 dimGrid((nx + TILE_DIM - 1) / TILE_DIM, (ny + TILE_DIM - 1) / TILE_DIM, 1);
  dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);

  float *h_idata = (float*)malloc(mem_size), *h_tdata = (float*)malloc(mem_size);
  for (int i = 0; i < nx * ny; ++i) h_idata[i] = i;
  float *d_idata, *d_tdata;
  CUDA_CHECK(cudaMalloc(&d_idata, mem_size));
  CUDA_CHECK(cudaMalloc(&d_tdata, mem_size));
  CUDA_CHECK(cudaMemcpy(d_idata, h_idata, mem_size, cudaMemcpyHostToDevice));

  cudaEvent_t startEvent, stopEvent;
  CUDA_CHECK(cudaEventCreate(&startEvent));
  CUDA_CHECK(cudaEventCreate(&stopEvent));
  void (*kernels[])(float*, const float*, int, int) = {transposeNaive, transposeTile<0>,
                                                       transposeTile<1>};
  int wrong = 0;
  for (int k = 0; k < 3; ++k) {
    float ms = -1;
    CUDA_CHECK(cudaMemset(d_tdata, 0, mem_size));
    CUDA_CHECK(cudaEventRecord(startEvent, 0));
    kernels[k]<<<dimGrid, dimBlock>>>(d_tdata, d_idata, nx, ny);
    CUDA_CHECK(cudaEventRecord(stopEvent, 0));
    CUDA_CHECK(cudaEventSynchronize(stopEvent));
    CUDA_CHECK(cudaEventElapsedTime(&ms, startEvent, stopEvent));
    CUDA_CHECK(cudaMemcpy(h_tdata, d_tdata, mem_size, cudaMemcpyDeviceToHost));
    for (int x = 0; x < nx; ++x)
      for (int y = 0; y < ny; ++y) wrong += h_tdata[x * ny + y] != h_idata[y * nx + x];
    if (ms < 0) ++wrong;
  }
  printf("%d wrong\n", wrong);
  CUDA_CHECK(cudaEventDestroy(startEvent));
  CUDA_CHECK(cudaEventDestroy(stopEvent));
  cudaFree(d_tdata);
  cudaFree(d_idata);
  free(h_idata);
  free(h_tdata);
  return wrong == 0 ? 0 : 1;
}
