// A bitonic sort: in shared memory as long as pairs lie in one block, in global memory beyond.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "check.cuh"

#define SHARED_SIZE_LIMIT 256U

__device__ inline void Comparator(uint& keyA, uint& valA, uint& keyB, uint& valB, uint dir) {
  uint t;
  if ((keyA > keyB) == dir) {
    t = keyA;
    keyA = keyB;
    keyB = t;
    t = valA;
    valA = valB;
    valB = t;
  }
}

__global__ void bitonicSortShared1(uint* d_DstKey, uint* d_DstVal, uint* d_SrcKey, uint* d_SrcVal) {
  __shared__ uint s_key[SHARED_SIZE_LIMIT];
  __shared__ uint s_val[SHARED_SIZE_LIMIT];
  const uint base = blockIdx.x * SHARED_SIZE_LIMIT + threadIdx.x;
  s_key[threadIdx.x + 0] = d_SrcKey[base];
  s_val[threadIdx.x + 0] = d_SrcVal[base];
  s_key[threadIdx.x + (SHARED_SIZE_LIMIT / 2)] = d_SrcKey[base + (SHARED_SIZE_LIMIT / 2)];
  s_val[threadIdx.x + (SHARED_SIZE_LIMIT / 2)] = d_SrcVal[base + (SHARED_SIZE_LIMIT / 2)];
  for (uint size = 2; size <= SHARED_SIZE_LIMIT; size <<= 1) {
    const uint comparator = (blockIdx.x * (SHARED_SIZE_LIMIT / 2)) + threadIdx.x;
    const uint ddd = (comparator & (size / 2)) != 0;
    for (uint stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      Comparator(s_key[pos + 0], s_val[pos + 0], s_key[pos + stride], s_val[pos + stride], !ddd);
    }
  }
  __syncthreads();
  d_DstKey[base] = s_key[threadIdx.x];
  d_DstVal[base] = s_val[threadIdx.x];
  d_DstKey[base + (SHARED_SIZE_LIMIT / 2)] = s_key[threadIdx.x + (SHARED_SIZE_LIMIT / 2)];
  d_DstVal[base + (SHARED_SIZE_LIMIT / 2)] = s_val[threadIdx.x + (SHARED_SIZE_LIMIT / 2)];
}

__global__ void bitonicMergeGlobal(uint* d_Key, uint* d_Val, uint arrayLength, uint size,
                                   uint stride, uint dir) {
  uint global_comparatorI = blockIdx.x * blockDim.x + threadIdx.x;
  uint comparatorI = global_comparatorI & (arrayLength / 2 - 1);
  uint ddd = dir ^ ((comparatorI & (size / 2)) != 0);
  uint pos = 2 * global_comparatorI - (global_comparatorI & (stride - 1));
  uint keyA = d_Key[pos + 0], valA = d_Val[pos + 0];
  uint keyB = d_Key[pos + stride], valB = d_Val[pos + stride];
  Comparator(keyA, valA, keyB, valB, ddd);
  d_Key[pos + 0] = keyA;
  d_Val[pos + 0] = valA;
  d_Key[pos + stride] = keyB;
  d_Val[pos + stride] = valB;
}

int main() {
  const uint n = 1024;
  std::vector<uint> keys(n), values(n), sorted(n), order(n);
  uint state = 1;
  for (uint i = 0; i < n; ++i) {
    state = state * 1103515245u + 12345u;
    keys[i] = state >> 12;
    values[i] = i;
  }
  uint *d_key, *d_val;
  CUDA_CHECK(cudaMalloc((void**)&d_key, n * sizeof(uint)));
  CUDA_CHECK(cudaMalloc((void**)&d_val, n * sizeof(uint)));
  CUDA_CHECK(cudaMemcpy(d_key, keys.data(), n * sizeof(uint), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(d_val, values.data(), n * sizeof(uint), cudaMemcpyHostToDevice));
  bitonicSortShared1<<<n / SHARED_SIZE_LIMIT, SHARED_SIZE_LIMIT / 2>>>(d_key, d_val, d_key, d_val);
  for (uint size = 2 * SHARED_SIZE_LIMIT; size <= n; size <<= 1)
    for (unsigned stride = size / 2; stride > 0; stride >>= 1)
      bitonicMergeGlobal<<<n / 512, 256>>>(d_key, d_val, n, size, stride, 1);
  CUDA_CHECK(cudaMemcpy(sorted.data(), d_key, n * sizeof(uint), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(order.data(), d_val, n * sizeof(uint), cudaMemcpyDeviceToHost));
  for (uint i = 0; i < n; ++i)
    if ((i > 0 && sorted[i - 1] > sorted[i]) || keys[order[i]] != sorted[i])
      return printf("place %u is wrong\n", i), 1;
  return 0;
}
