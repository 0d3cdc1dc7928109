// Prefix sums in one pass: a block publishes the sum of its tile, and looks back over those before
// it, a warp's width at a time, until it finds one whose prefix is known.
#include <cuda/atomic>

#include <cstdio>
#include <vector>

#include "check.cuh"

constexpr int kThreads = 128, kItems = 4, kTile = kThreads * kItems, kWarps = kThreads / 32;

enum Status : unsigned { kEmpty, kAggregate, kPrefix };
using TileState = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>;

__device__ unsigned warpInclusive(unsigned x) {
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    unsigned y = __shfl_up_sync(0xffffffffu, x, d);
    if ((threadIdx.x & 31) >= d) x += y;
  }
  return x;
}

__device__ void publish(unsigned long long* states, int tile, Status status, unsigned value) {
  TileState(states[tile])
      .store(((unsigned long long)status << 32) | value, cuda::memory_order_release);
}

// By one warp: the sum of all tiles before this one.
__device__ unsigned lookBack(unsigned long long* states, int tile) {
  const int lane = threadIdx.x & 31;
  unsigned exclusive = 0;
  for (int last = tile - 1;; last -= 32) {
    const int mine = last - lane;
    unsigned long long word = (unsigned long long)kPrefix << 32;
    if (mine >= 0) {
      TileState state(states[mine]);
      do {
        word = state.load(cuda::memory_order_acquire);
      } while ((word >> 32) == kEmpty);
    }
    const unsigned known = __ballot_sync(0xffffffffu, (word >> 32) == kPrefix);
    const int first = known ? __ffs(known) - 1 : 31;
    unsigned sum = lane <= first ? (unsigned)word : 0;
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    exclusive += sum;
    if (known) return exclusive;
  }
}

__global__ void __launch_bounds__(kThreads)
    scan(const unsigned* in, unsigned* out, int n, unsigned long long* states, int* nextTile) {
  __shared__ int sharedTile;
  __shared__ unsigned warpSums[kWarps], before;
  if (threadIdx.x == 0) sharedTile = atomicAdd(nextTile, 1);
  __syncthreads();
  const int tile = sharedTile, first = tile * kTile + threadIdx.x * kItems;
  unsigned item[kItems], sum = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) sum += item[i] = first + i < n ? in[first + i] : 0;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned inclusive = warpInclusive(sum);
  if (lane == 31) warpSums[warp] = inclusive;
  __syncthreads();
  unsigned offset = inclusive - sum, total = 0;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) offset += warpSums[w];
    total += warpSums[w];
  }
  if (warp == 0) {
    if (lane == 0) publish(states, tile, tile == 0 ? kPrefix : kAggregate, total);
    const unsigned exclusive = tile == 0 ? 0 : lookBack(states, tile);
    if (lane == 0) {
      if (tile > 0) publish(states, tile, kPrefix, exclusive + total);
      before = exclusive;
    }
  }
  __syncthreads();
  offset += before;
  for (int i = 0; i < kItems; ++i) {
    offset += item[i];
    if (first + i < n) out[first + i] = offset;
  }
}

int main() {
  const int n = 5 * kTile + 77, tiles = (n + kTile - 1) / kTile;
  std::vector<unsigned> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = (i * 2654435761u) >> 20;
  unsigned *dIn, *dOut;
  unsigned long long* states;
  int* nextTile;
  CUDA_CHECK(cudaMalloc(&dIn, n * sizeof(unsigned)));
  CUDA_CHECK(cudaMalloc(&dOut, n * sizeof(unsigned)));
  CUDA_CHECK(cudaMalloc(&states, tiles * sizeof(unsigned long long)));
  CUDA_CHECK(cudaMalloc(&nextTile, sizeof(int)));
  CUDA_CHECK(cudaMemset(states, 0, tiles * sizeof(unsigned long long)));
  CUDA_CHECK(cudaMemset(nextTile, 0, sizeof(int)));
  CUDA_CHECK(cudaMemcpy(dIn, in.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  scan<<<tiles, kThreads>>>(dIn, dOut, n, states, nextTile);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpy(out.data(), dOut, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  unsigned sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += in[i];
    if (out[i] != sum) return printf("at %d: %u, not %u\n", i, out[i], sum), 1;
  }
  printf("%d numbers, %d tiles\n", n, tiles);
  cudaFree(dIn);
  cudaFree(dOut);
  cudaFree(states);
  cudaFree(nextTile);
  return 0;
}
