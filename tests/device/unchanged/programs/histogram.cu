// A histogram of bytes: atomics on global memory, on shared memory, and one counter for each warp
// that the lanes with the same value raise together.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "check.cuh"

typedef unsigned int uint;
typedef unsigned char uchar;
#define HISTOGRAM256_BIN_COUNT 256
#define WARP_COUNT 4
#define UMAD(a, b, c) ((a) * (b) + (c))

inline __device__ void addByte(uint* s_WarpHist, uint data) { atomicAdd(s_WarpHist + data, 1); }

inline __device__ void addWord(uint* s_WarpHist, uint data) {
  addByte(s_WarpHist, (data >> 0) & 0xFFU);
  addByte(s_WarpHist, (data >> 8) & 0xFFU);
  addByte(s_WarpHist, (data >> 16) & 0xFFU);
  addByte(s_WarpHist, (data >> 24) & 0xFFU);
}

__global__ void histogramGlobal(uint* hist, const uchar* data, uint n) {
  for (uint i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&hist[data[i]], 1u);
}

__global__ void histogram256Kernel(uint* d_PartialHistograms, uint* d_Data, uint dataCount) {
  __shared__ uint s_Hist[WARP_COUNT * HISTOGRAM256_BIN_COUNT];
  uint* s_WarpHist = s_Hist + (threadIdx.x >> 5) * HISTOGRAM256_BIN_COUNT;
#pragma unroll
  for (uint i = 0; i < (HISTOGRAM256_BIN_COUNT / 32); i++)
    s_Hist[threadIdx.x + i * WARP_COUNT * 32] = 0;
  __syncthreads();
  for (uint pos = UMAD(blockIdx.x, blockDim.x, threadIdx.x); pos < dataCount;
       pos += UMAD(blockDim.x, gridDim.x, 0))
    addWord(s_WarpHist, d_Data[pos]);
  __syncthreads();
  for (uint bin = threadIdx.x; bin < HISTOGRAM256_BIN_COUNT; bin += WARP_COUNT * 32) {
    uint sum = 0;
    for (uint i = 0; i < WARP_COUNT; i++) sum += s_Hist[bin + i * HISTOGRAM256_BIN_COUNT];
    d_PartialHistograms[blockIdx.x * HISTOGRAM256_BIN_COUNT + bin] = sum;
  }
}

__global__ void mergeHistogram256Kernel(uint* d_Histogram, uint* d_PartialHistograms, uint count) {
  __shared__ uint data[64];
  uint sum = 0;
  for (uint i = threadIdx.x; i < count; i += 64)
    sum += d_PartialHistograms[blockIdx.x + i * HISTOGRAM256_BIN_COUNT];
  data[threadIdx.x] = sum;
  for (uint stride = 64 / 2; stride > 0; stride >>= 1) {
    __syncthreads();
    if (threadIdx.x < stride) data[threadIdx.x] += data[threadIdx.x + stride];
  }
  if (threadIdx.x == 0) d_Histogram[blockIdx.x] = data[0];
}

__global__ void histogramMatch(uint* hist, const uchar* data, uint n) {
  for (uint base = blockIdx.x * blockDim.x; base < n; base += blockDim.x * gridDim.x) {
    const uint i = base + threadIdx.x;
    const uint value = i < n ? data[i] : 256;
    const unsigned same = __match_any_sync(0xffffffff, value);
    const int leader = __ffs(same) - 1;
    if (value < 256 && threadIdx.x % 32 == leader) atomicAdd(&hist[value], __popc(same));
  }
}

int main() {
  const uint n = 4096;
  static uchar data[n];
  uint expected[256] = {0}, hist[256], state = 12345;
  for (uint i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    data[i] = (state >> 24) & (state >> 16) & 0xff;
    ++expected[data[i]];
  }
  uchar* d_data;
  uint *d_hist, *d_partial;
  const int blocks = 3;
  CUDA_CHECK(cudaMalloc((void**)&d_data, n));
  CUDA_CHECK(cudaMalloc((void**)&d_hist, sizeof hist));
  CUDA_CHECK(cudaMalloc((void**)&d_partial, blocks * sizeof hist));
  CUDA_CHECK(cudaMemcpy(d_data, data, n, cudaMemcpyHostToDevice));
  for (int version = 0; version < 3; ++version) {
    CUDA_CHECK(cudaMemset(d_hist, 0, sizeof hist));
    if (version == 0) histogramGlobal<<<blocks, 64>>>(d_hist, d_data, n);
    if (version == 1) {
      histogram256Kernel<<<blocks, WARP_COUNT * 32>>>(d_partial, (uint*)d_data, n / sizeof(uint));
      mergeHistogram256Kernel<<<HISTOGRAM256_BIN_COUNT, 64>>>(d_hist, d_partial, blocks);
    }
    if (version == 2) histogramMatch<<<blocks, 64>>>(d_hist, d_data, n);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(hist, d_hist, sizeof hist, cudaMemcpyDeviceToHost));
    if (memcmp(hist, expected, sizeof hist) != 0) {
      printf("version %d is wrong\n", version);
      return EXIT_FAILURE;
    }
  }
  return EXIT_SUCCESS;
}
