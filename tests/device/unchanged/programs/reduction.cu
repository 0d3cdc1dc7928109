// Sums of an array, from the obvious kernel to the one with shuffles: eight versions.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

// The number of threads of a block, for versions that know it at compile time.
#define BLOCK 128

template <class T>
struct SharedMemory {
  __device__ inline operator T*() {
    extern __shared__ int __smem[];
    return (T*)__smem;
  }
};

// 0: interleaved addressing, with a modulo.
template <class T>
__global__ void reduce0(T* g_idata, T* g_odata, unsigned int n) {
  T* sdata = SharedMemory<T>();
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? g_idata[i] : 0;
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    if ((tid % (2 * s)) == 0) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

// 1: threads in a row do the work, with bank conflicts.
template <class T>
__global__ void reduce1(T* g_idata, T* g_odata, unsigned int n) {
  T* sdata = SharedMemory<T>();
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? g_idata[i] : 0;
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    int index = 2 * s * tid;
    if (index < blockDim.x) sdata[index] += sdata[index + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

// 2: sequential addressing.
template <class T>
__global__ void reduce2(T* g_idata, T* g_odata, unsigned int n) {
  T* sdata = SharedMemory<T>();
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = (i < n) ? g_idata[i] : 0;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

// 3: the first addition while loading.
template <class T>
__global__ void reduce3(T* g_idata, T* g_odata, unsigned int n) {
  T* sdata = SharedMemory<T>();
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  T mySum = (i < n) ? g_idata[i] : 0;
  if (i + blockDim.x < n) mySum += g_idata[i + blockDim.x];
  sdata[tid] = mySum;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] = mySum = mySum + sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = mySum;
}

// 4: the last warp without barriers of the block.
template <class T>
__device__ void warp_reduce(volatile T* sdata, unsigned int tid) {
  T v = sdata[tid];
  v += sdata[tid + 32];
  __syncwarp();
  sdata[tid] = v;
  __syncwarp();
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    T other = sdata[tid + offset];
    __syncwarp();
    sdata[tid] = v += other;
    __syncwarp();
  }
}

template <class T, unsigned int blockSize>
__global__ void __launch_bounds__(blockSize) reduce4(T* g_idata, T* g_odata, unsigned int n) {
  __shared__ alignas(16) T sdata[blockSize];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockSize * 2) + threadIdx.x;
  sdata[tid] = (i < n ? g_idata[i] : 0) + (i + blockSize < n ? g_idata[i + blockSize] : 0);
  __syncthreads();
  if constexpr (blockSize >= 128) {
    if (tid < 64) sdata[tid] += sdata[tid + 64];
    __syncthreads();
  }
  if (tid < 32) warp_reduce<T>(sdata, tid);
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

// 5: shuffles.
template <class T>
__device__ __forceinline__ T warpReduceSum(unsigned int mask, T mySum, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    mySum += __shfl_down_sync(mask, mySum, offset, lanes);
  return mySum;
}

template <class T, unsigned int blockSize>
__global__ void reduce5(const T* __restrict__ g_idata, T* __restrict__ g_odata, unsigned int n) {
  static __shared__ T warps[blockSize / 32];
  T mySum = 0;
  for (unsigned int i = blockIdx.x * blockSize + threadIdx.x; i < n; i += gridDim.x * blockSize)
    mySum += __ldg(&g_idata[i]);
  mySum = warpReduceSum<T>(0xffffffff, mySum, warpSize);
  if (threadIdx.x % warpSize == 0) warps[threadIdx.x / warpSize] = mySum;
  __syncthreads();
  const unsigned int mask = __ballot_sync(0xffffffff, threadIdx.x < blockSize / warpSize);
  if (threadIdx.x < blockSize / warpSize) {
    mySum = warpReduceSum<T>(mask, warps[threadIdx.x], blockSize / warpSize);
    if (threadIdx.x == 0) g_odata[blockIdx.x] = mySum;
  }
}

// 6: cooperative groups.
template <class T>
__global__ void reduce6(const T* g_idata, T* g_odata, unsigned int n) {
  cg::thread_block cta = cg::this_thread_block();
  cg::thread_block_tile<32> tile32 = cg::tiled_partition<32>(cta);
  T* sdata = SharedMemory<T>();
  T mySum = 0;
  for (unsigned int i = blockIdx.x * blockDim.x + cta.thread_rank(); i < n;
       i += gridDim.x * blockDim.x)
    mySum += g_idata[i];
  for (int offset = tile32.size() / 2; offset > 0; offset /= 2)
    mySum += tile32.shfl_down(mySum, offset);
  if (tile32.thread_rank() == 0) sdata[tile32.meta_group_rank()] = mySum;
  cg::sync(cta);
  if (cta.thread_rank() == 0) {
    T sum = 0;
    for (int i = 0; i < (int)tile32.meta_group_size(); ++i) sum += sdata[i];
    g_odata[blockIdx.x] = sum;
  }
}

// 7: one launch; the last block adds what the others left.
__device__ unsigned int retirementCount = 0;

template <unsigned int blockSize>
__global__ void reduce7(const int* g_idata, int* g_odata, unsigned int n) {
  __shared__ bool amLast;
  __shared__ int sums[blockSize / 32];
  int mySum = 0;
  for (unsigned int i = blockIdx.x * blockSize + threadIdx.x; i < n; i += gridDim.x * blockSize)
    mySum += g_idata[i];
  mySum = __reduce_add_sync(0xffffffff, mySum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mySum;
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int value : sums) sum += value;
    g_odata[blockIdx.x] = sum;
    __threadfence();
    amLast = atomicInc(&retirementCount, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (amLast && threadIdx.x == 0) {
    int total = 0;
    for (unsigned int i = 0; i < gridDim.x; ++i) total += ((volatile int*)g_odata)[i];
    g_odata[0] = total;
    retirementCount = 0;
  }
}

int reduce(int which, int* d_idata, int* d_odata, unsigned int n) {
  int blocks = (n + BLOCK - 1) / BLOCK;
  const int smem = BLOCK * sizeof(int);
  if (which == 3 || which == 4) blocks = (blocks + 1) / 2;
  if (which >= 5) blocks = 7;
  switch (which) {
    case 0: reduce0<int><<<blocks, BLOCK, smem>>>(d_idata, d_odata, n); break;
    case 1: reduce1<<<blocks, BLOCK, smem>>>(d_idata, d_odata, n); break;
    case 2: reduce2<<<dim3(blocks, 1, 1), dim3(BLOCK, 1, 1), smem>>>(d_idata, d_odata, n); break;
    case 3: reduce3<int><<<blocks, BLOCK, smem, 0>>>(d_idata, d_odata, n); break;
    case 4: reduce4<int, BLOCK><<<blocks, BLOCK>>>(d_idata, d_odata, n); break;
    case 5: reduce5<int, BLOCK><<<blocks, BLOCK>>>(d_idata, d_odata, n); break;
    case 6: reduce6<<<blocks, BLOCK, smem>>>(d_idata, d_odata, n); break;
    case 7: reduce7<BLOCK><<<blocks, BLOCK>>>(d_idata, d_odata, n); break;
  }
  CUDA_CHECK(cudaGetLastError());
  std::vector<int> sums(which == 7 ? 1 : blocks);
  CUDA_CHECK(cudaMemcpy(sums.data(), d_odata, sums.size() * sizeof(int), cudaMemcpyDeviceToHost));
  return std::accumulate(sums.begin(), sums.end(), 0);
}

int main() {
  const unsigned int n = 5000;
  std::vector<int> h_idata(n);
  for (unsigned int i = 0; i < n; ++i) h_idata[i] = (int)(i * 7 % 101) - 20;
  const int expected = std::accumulate(h_idata.begin(), h_idata.end(), 0);

  int *d_idata = NULL, *d_odata = NULL;
  CUDA_CHECK(cudaMalloc((void**)&d_idata, n * sizeof(int)));
  CUDA_CHECK(cudaMalloc((void**)&d_odata, n * sizeof(int)));
  CUDA_CHECK(cudaMemcpy(d_idata, h_idata.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  bool ok = true;
  for (int which = 0; which < 8; ++which) {
    const int sum = reduce(which, d_idata, d_odata, n);
    printf("reduce%d: %d, expected %d\n", which, sum, expected);
    ok = ok && sum == expected;
  }
  CUDA_CHECK(cudaFree(d_idata));
  CUDA_CHECK(cudaFree(d_odata));
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
