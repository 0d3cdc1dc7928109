// Keys and values sorted by four bits at a time: a histogram of each block, one scan over all of
// them, and a scatter that keeps the order of equal digits.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "check.cuh"

#define RADIX_BITS 4
#define RADIX (1 << RADIX_BITS)
#define BLOCK 128

__device__ __forceinline__ unsigned digitOf(uint32_t key, int shift) {
  return (key >> shift) & (RADIX - 1);
}

// counts[digit * blocks + block]
__global__ void countDigits(const uint32_t* keys, int n, int shift, int* counts) {
  __shared__ int hist[RADIX];
  if (threadIdx.x < RADIX) hist[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) atomicAdd(&hist[digitOf(keys[i], shift)], 1);
  __syncthreads();
  if (threadIdx.x < RADIX) counts[threadIdx.x * gridDim.x + blockIdx.x] = hist[threadIdx.x];
}

// One block; exclusive, in place.
__global__ void scanCounts(int* counts, int n) {
  extern __shared__ int part[];
  int carry = 0;
  for (int base = 0; base < n; base += blockDim.x) {
    const int i = base + threadIdx.x, mine = i < n ? counts[i] : 0;
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
      const int left = threadIdx.x >= d ? part[threadIdx.x - d] : 0;
      __syncthreads();
      part[threadIdx.x] += left;
      __syncthreads();
    }
    if (i < n) counts[i] = carry + part[threadIdx.x] - mine;
    carry += part[blockDim.x - 1];
    __syncthreads();
  }
}

__global__ void scatter(const uint32_t* keysIn, const int* valuesIn, uint32_t* keysOut,
                        int* valuesOut, int n, int shift, const int* offsets) {
  __shared__ int warpCounts[BLOCK / 32][RADIX];
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int d = lane; d < RADIX; d += 32) warpCounts[warp][d] = 0;
  __syncwarp();
  const uint32_t key = i < n ? keysIn[i] : 0;
  const unsigned digit = i < n ? digitOf(key, shift) : RADIX;  // those beyond the end are alone
  const unsigned peers = __match_any_sync(0xffffffffu, digit);
  const int rank = __popc(peers & ((1u << lane) - 1));
  if (i < n && rank == 0) warpCounts[warp][digit] = __popc(peers);
  __syncthreads();
  if (i >= n) return;
  int at = offsets[digit * gridDim.x + blockIdx.x] + rank;
  for (int w = 0; w < warp; ++w) at += warpCounts[w][digit];
  keysOut[at] = key;
  valuesOut[at] = valuesIn[i];
}

int main() {
  const int n = 1000, blocks = (n + BLOCK - 1) / BLOCK;
  std::vector<uint32_t> keys(n);
  std::vector<int> values(n), order(n);
  for (int i = 0; i < n; ++i) keys[i] = (i % 7 == 0) ? 5u : i * 2654435761u;
  std::iota(values.begin(), values.end(), 0);
  order = values;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });

  uint32_t *dKeys, *dKeysOut;
  int *dValues, *dValuesOut, *counts;
  CUDA_CHECK(cudaMalloc(&dKeys, n * sizeof(uint32_t)));
  CUDA_CHECK(cudaMalloc(&dKeysOut, n * sizeof(uint32_t)));
  CUDA_CHECK(cudaMalloc(&dValues, n * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&dValuesOut, n * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&counts, RADIX * blocks * sizeof(int)));
  CUDA_CHECK(cudaMemcpy(dKeys, keys.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dValues, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  for (int shift = 0; shift < 32; shift += RADIX_BITS) {
    countDigits<<<blocks, BLOCK>>>(dKeys, n, shift, counts);
    scanCounts<<<1, 64, 64 * sizeof(int)>>>(counts, RADIX * blocks);
    scatter<<<blocks, BLOCK>>>(dKeys, dValues, dKeysOut, dValuesOut, n, shift, counts);
    CUDA_CHECK(cudaGetLastError());
    std::swap(dKeys, dKeysOut);
    std::swap(dValues, dValuesOut);
  }
  CUDA_CHECK(cudaMemcpy(values.data(), dValues, n * sizeof(int), cudaMemcpyDeviceToHost));
  std::vector<uint32_t> sorted(n);
  CUDA_CHECK(cudaMemcpy(sorted.data(), dKeys, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i)
    if (values[i] != order[i] || sorted[i] != keys[order[i]]) return printf("at %d\n", i), 1;
  cudaFree(dKeys);
  cudaFree(dKeysOut);
  cudaFree(dValues);
  cudaFree(dValuesOut);
  cudaFree(counts);
  printf("%d pairs sorted\n", n);
  return 0;
}
