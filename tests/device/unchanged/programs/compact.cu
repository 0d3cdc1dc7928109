// The elements that pass a test, packed: by ballots with an order that is kept, and by warps that
// add up how many they have and take places with one atomic operation.
#include <cooperative_groups.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "check.cuh"

using namespace cooperative_groups;

__device__ int atomicAggInc(int* ctr) {
  coalesced_group active = coalesced_threads();
  int prev;
  if (active.thread_rank() == 0) prev = atomicAdd(ctr, active.size());
  prev = active.thread_rank() + active.shfl(prev, 0);
  return prev;
}

__global__ void filter_k(int* dst, int* nres, const int* src, int n) {
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x)
    if (src[i] > 0) dst[atomicAggInc(nres)] = src[i];
}

__device__ unsigned lanemask_lt() { return (1u << (threadIdx.x & 31)) - 1; }

template <int kBlock>
__global__ void ordered(int* dst, int* count, const int* src, int n) {
  __shared__ int offsets[kBlock / 32 + 1];
  int base = 0;
  for (int first = 0; first < n; first += kBlock) {
    const int i = first + threadIdx.x, warp = threadIdx.x >> 5;
    const bool keep = i < n && src[i] > 0;
    const unsigned votes = __ballot_sync(0xffffffffu, keep);
    if ((threadIdx.x & 31) == 0) offsets[warp + 1] = __popc(votes);
    if (threadIdx.x == 0) offsets[0] = 0;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int w = 0; w < kBlock / 32; ++w) offsets[w + 1] += offsets[w];
    __syncthreads();
    if (keep) dst[base + offsets[warp] + __popc(votes & lanemask_lt())] = src[i];
    base += offsets[kBlock / 32];
    __syncthreads();
  }
  if (threadIdx.x == 0) *count = base;
}

int main() {
  const int n = 1000;
  int *src, *dst, *nres;
  CUDA_CHECK(cudaMallocManaged(&src, n * sizeof(int)));
  CUDA_CHECK(cudaMallocManaged(&dst, n * sizeof(int)));
  CUDA_CHECK(cudaMallocManaged(&nres, sizeof(int)));
  std::vector<int> expected;
  for (int i = 0; i < n; ++i) {
    src[i] = (i * 37 + 11) % 101 - 50;
    if (src[i] > 0) expected.push_back(src[i]);
  }
  ordered<128><<<1, 128>>>(dst, nres, src, n);
  CUDA_CHECK(cudaDeviceSynchronize());
  if (*nres != (int)expected.size() || !std::equal(expected.begin(), expected.end(), dst)) return 1;

  *nres = 0;
  filter_k<<<2, 96>>>(dst, nres, src, n);
  CUDA_CHECK(cudaDeviceSynchronize());
  std::vector<int> got(dst, dst + *nres);
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  printf("%d of %d\n", *nres, n);
  CUDA_CHECK(cudaFree(src));
  CUDA_CHECK(cudaFree(dst));
  CUDA_CHECK(cudaFree(nres));
  return got == expected ? 0 : 1;
}
