// Prefix sums: by warps with shuffles, and by a tree that goes up and down, with offsets against
// bank conflicts.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

#define LOG_NUM_BANKS 5
#define CONFLICT_FREE_OFFSET(n) ((n) >> LOG_NUM_BANKS)

__global__ void prescan(int* g_odata, const int* g_idata, int* g_sums, int n) {
  extern __shared__ __align__(16) int temp[];
  int thid = threadIdx.x, offset = 1;
  const int base = blockIdx.x * n;
  int ai = thid, bi = thid + (n / 2);
  int bankOffsetA = CONFLICT_FREE_OFFSET(ai), bankOffsetB = CONFLICT_FREE_OFFSET(bi);
  temp[ai + bankOffsetA] = g_idata[base + ai];
  temp[bi + bankOffsetB] = g_idata[base + bi];
  for (int d = n >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) {
      int i = offset * (2 * thid + 1) - 1, j = offset * (2 * thid + 2) - 1;
      i += CONFLICT_FREE_OFFSET(i);
      j += CONFLICT_FREE_OFFSET(j);
      temp[j] += temp[i];
    }
    offset *= 2;
  }
  if (thid == 0) {
    const int last = n - 1 + CONFLICT_FREE_OFFSET(n - 1);
    if (g_sums) g_sums[blockIdx.x] = temp[last];
    temp[last] = 0;
  }
  for (int d = 1; d < n; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thid < d) {
      int i = offset * (2 * thid + 1) - 1, j = offset * (2 * thid + 2) - 1;
      i += CONFLICT_FREE_OFFSET(i);
      j += CONFLICT_FREE_OFFSET(j);
      int t = temp[i];
      temp[i] = temp[j];
      temp[j] += t;
    }
  }
  __syncthreads();
  g_odata[base + ai] = temp[ai + bankOffsetA];
  g_odata[base + bi] = temp[bi + bankOffsetB];
}

__global__ void uniform_add(int* data, const int* sums, int n) {
  data[blockIdx.x * n + threadIdx.x] += sums[blockIdx.x];
  data[blockIdx.x * n + threadIdx.x + n / 2] += sums[blockIdx.x];
}

__global__ void shfl_scan(int* data, int width, int* partial_sums = NULL) {
  extern __shared__ int sums[];
  int id = ((blockIdx.x * blockDim.x) + threadIdx.x);
  int lane_id = id % warpSize, warp_id = threadIdx.x / warpSize;
  int value = data[id];
#pragma unroll
  for (int i = 1; i <= width; i *= 2) {
    unsigned int mask = 0xffffffff;
    int n = __shfl_up_sync(mask, value, i, width);
    if (lane_id >= i) value += n;
  }
  if (threadIdx.x % warpSize == warpSize - 1) sums[warp_id] = value;
  __syncthreads();
  if (warp_id == 0 && lane_id < (blockDim.x / warpSize)) {
    int warp_sum = sums[lane_id];
    int mask = (1 << (blockDim.x / warpSize)) - 1;
    for (int i = 1; i <= (blockDim.x / warpSize); i *= 2) {
      int n = __shfl_up_sync(mask, warp_sum, i, (blockDim.x / warpSize));
      if (lane_id >= i) warp_sum += n;
    }
    sums[lane_id] = warp_sum;
  }
  __syncthreads();
  int blockSum = 0;
  if (warp_id > 0) blockSum = sums[warp_id - 1];
  value += blockSum;
  data[id] = value;
  if (partial_sums != NULL && threadIdx.x == blockDim.x - 1) partial_sums[blockIdx.x] = value;
}

int main() {
  const int per_block = 256, blocks = 8, n = per_block * blocks;
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = i * i % 19 - 5;
  int *d_in, *d_out, *d_sums;
  CUDA_CHECK(cudaMalloc(&d_in, n * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&d_out, n * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&d_sums, blocks * sizeof(int)));
  CUDA_CHECK(cudaMemcpy(d_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));

  const size_t shmem = (per_block + CONFLICT_FREE_OFFSET(per_block)) * sizeof(int);
  prescan<<<blocks, per_block / 2, shmem>>>(d_out, d_in, d_sums, per_block);
  prescan<<<1, blocks / 2, shmem>>>(d_sums, d_sums, NULL, blocks);
  uniform_add<<<blocks, per_block / 2>>>(d_out, d_sums, per_block);
  CUDA_CHECK(cudaMemcpy(out.data(), d_out, n * sizeof(int), cudaMemcpyDeviceToHost));
  int sum = 0;
  for (int i = 0; i < n; sum += in[i++])
    if (out[i] != sum) return printf("prescan: element %d is %d, not %d\n", i, out[i], sum), 1;

  shfl_scan<<<blocks, per_block, 8 * sizeof(int)>>>(d_in, 32, d_sums);
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(out.data(), d_in, n * sizeof(int), cudaMemcpyDeviceToHost));
  sum = 0;
  for (int i = 0; i < n; ++i) {
    sum = (i % per_block == 0 ? 0 : sum) + in[i];
    if (out[i] != sum) return printf("shfl_scan: element %d is %d, not %d\n", i, out[i], sum), 1;
  }
  return 0;
}
