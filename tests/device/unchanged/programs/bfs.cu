// Breadth-first search by levels: whoever finds a vertex first puts it into the next frontier, in
// a queue of the block that is written out as a whole.
#include <cuda_runtime.h>

#include <cstdio>
#include <queue>
#include <utility>
#include <vector>

#include "check.cuh"

#define QUEUE_SIZE 64

__global__ void expand(const int* __restrict__ offsets, const int* __restrict__ edges, int* levels,
                       const int* frontier, int frontierSize, int* next, int* nextSize, int level) {
  __shared__ int queue[QUEUE_SIZE];
  __shared__ int queued, base;
  if (threadIdx.x == 0) queued = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < frontierSize) {
    const int v = frontier[i];
    for (int e = offsets[v]; e < offsets[v + 1]; e++) {
      const int w = edges[e];
      if (atomicCAS(&levels[w], -1, level) != -1) continue;
      const int slot = atomicAdd(&queued, 1);
      if (slot < QUEUE_SIZE)
        queue[slot] = w;
      else
        next[atomicAdd(nextSize, 1)] = w;
    }
  }
  __syncthreads();
  const int count = min(queued, QUEUE_SIZE);
  if (threadIdx.x == 0) base = atomicAdd(nextSize, count);
  __syncthreads();
  for (int k = threadIdx.x; k < count; k += blockDim.x) next[base + k] = queue[k];
}

int main() {
  const int vertices = 700;
  std::vector<int> offsets(1, 0), edges;
  for (int v = 0; v < vertices; ++v) {
    for (int k = 1; k <= v % 6; ++k) edges.push_back((v * 13 + k * k * 101) % (vertices - 3));
    if (v % 50 == 0)
      for (int k = 0; k < 120; ++k) edges.push_back((v + 5 * k) % (vertices - 3));
    offsets.push_back((int)edges.size());
  }
  std::vector<int> expected(vertices, -1), levels(vertices, -1);
  std::queue<int> open;
  expected[0] = 0;
  for (open.push(0); !open.empty(); open.pop())
    for (int e = offsets[open.front()]; e < offsets[open.front() + 1]; ++e)
      if (expected[edges[e]] < 0) {
        expected[edges[e]] = expected[open.front()] + 1;
        open.push(edges[e]);
      }

  int *dOffsets, *dEdges, *dLevels, *frontier, *next, *nextSize;
  CUDA_CHECK(cudaMalloc(&dOffsets, offsets.size() * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&dEdges, edges.size() * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&dLevels, vertices * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&frontier, vertices * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&next, vertices * sizeof(int)));
  CUDA_CHECK(cudaMallocManaged(&nextSize, sizeof(int)));
  CUDA_CHECK(
      cudaMemcpy(dOffsets, offsets.data(), offsets.size() * sizeof(int), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dEdges, edges.data(), edges.size() * sizeof(int), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemset(dLevels, 0xff, vertices * sizeof(int)));
  const int source = 0, zero = 0;
  CUDA_CHECK(cudaMemcpy(frontier, &source, sizeof(int), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dLevels + source, &zero, sizeof(int), cudaMemcpyHostToDevice));
  int level = 0;
  for (int size = 1; size > 0; size = *nextSize) {
    *nextSize = 0;
    expand<<<(size + 63) / 64, 64>>>(dOffsets, dEdges, dLevels, frontier, size, next, nextSize,
                                     ++level);
    CUDA_CHECK(cudaDeviceSynchronize());
    std::swap(frontier, next);
  }
  CUDA_CHECK(cudaMemcpy(levels.data(), dLevels, vertices * sizeof(int), cudaMemcpyDeviceToHost));
  for (int v = 0; v < vertices; ++v)
    if (levels[v] != expected[v]) return printf("%d: %d, not %d\n", v, levels[v], expected[v]), 1;
  printf("%d levels\n", level);
  for (int* p : {dOffsets, dEdges, dLevels, frontier, next, nextSize}) CUDA_CHECK(cudaFree(p));
  return 0;
}
