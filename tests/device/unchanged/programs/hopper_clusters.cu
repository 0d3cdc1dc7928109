// Clusters: a histogram whose bins lie in the shared memory of all blocks of a cluster, launched
// with an attribute, and a stencil that reads the ends of its row from the neighbours, launched by
// the kernel's own cluster dimensions.
#include <cooperative_groups.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

constexpr int kThreads = 128;

// Block r of a cluster counts the bins [r * binsPerBlock, (r + 1) * binsPerBlock).
__global__ void clusterHistogram(const unsigned* keys, int n, int binsPerBlock, unsigned* bins) {
  extern __shared__ unsigned mine[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < binsPerBlock; i += blockDim.x) mine[i] = 0;
  cluster.sync();

  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < n; i += blockDim.x * gridDim.x) {
    const unsigned bin = keys[i] % (binsPerBlock * cluster.num_blocks());
    unsigned* theirs = cluster.map_shared_rank(mine, bin / binsPerBlock);
    atomicAdd(theirs + bin % binsPerBlock, 1u);
  }
  cluster.sync();

  const int offset = cluster.block_rank() * binsPerBlock;
  for (int i = threadIdx.x; i < binsPerBlock; i += blockDim.x)
    atomicAdd(bins + offset + i, mine[i]);
}

bool testHistogram() {
  const int n = 20000, binsPerBlock = 50, clusterSize = 4, bins = binsPerBlock * clusterSize;
  std::vector<unsigned> keys(n), expected(bins, 0), counted(bins);
  unsigned state = 12345;
  for (unsigned& key : keys) {
    state = state * 1664525u + 1013904223u;
    key = state >> 8;
    ++expected[key % bins];
  }
  unsigned *deviceKeys, *deviceBins;
  CUDA_CHECK(cudaMalloc(&deviceKeys, n * sizeof(unsigned)));
  CUDA_CHECK(cudaMalloc(&deviceBins, bins * sizeof(unsigned)));
  CUDA_CHECK(cudaMemcpy(deviceKeys, keys.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemset(deviceBins, 0, bins * sizeof(unsigned)));

  cudaLaunchConfig_t config = {};
  config.gridDim = 8;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = binsPerBlock * sizeof(unsigned);
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim.x = clusterSize;
  attribute[0].val.clusterDim.y = 1;
  attribute[0].val.clusterDim.z = 1;
  config.attrs = attribute;
  config.numAttrs = 1;
  CUDA_CHECK(
      cudaLaunchKernelEx(&config, clusterHistogram, deviceKeys, n, binsPerBlock, deviceBins));
  CUDA_CHECK(
      cudaMemcpy(counted.data(), deviceBins, bins * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(deviceKeys));
  CUDA_CHECK(cudaFree(deviceBins));
  return counted == expected;
}

// y[i] = x[i - 1] + x[i] + x[i + 1]; a cluster has one row of x.
template <int kBlocks>
__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads)
    sumNeighbours(const float* x, float* y) {
  __shared__ float part[kThreads];
  cg::cluster_group cluster = cg::this_cluster();
  const int i = blockIdx.x * kThreads + threadIdx.x, t = threadIdx.x;
  const int rank = cluster.block_rank();
  part[t] = x[i];
  cluster.sync();
  float sum = part[t];
  if (t > 0)
    sum += part[t - 1];
  else if (rank > 0)
    sum += cluster.map_shared_rank(part, rank - 1)[kThreads - 1];
  if (t < kThreads - 1)
    sum += part[t + 1];
  else if (rank < kBlocks - 1)
    sum += cluster.map_shared_rank(part, rank + 1)[0];
  y[i] = sum;
  cluster.sync();
}

bool testNeighbours() {
  constexpr int kBlocks = 2, kRows = 3, kRow = kBlocks * kThreads, n = kRows * kRow;
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = float(i * 7 % 101);
  float *deviceX, *deviceY;
  CUDA_CHECK(cudaMalloc(&deviceX, n * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&deviceY, n * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(deviceX, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  sumNeighbours<kBlocks><<<kBlocks * kRows, kThreads>>>(deviceX, deviceY);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpy(y.data(), deviceY, n * sizeof(float), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(deviceX));
  CUDA_CHECK(cudaFree(deviceY));
  for (int i = 0; i < n; ++i) {
    float sum = x[i];
    if (i % kRow > 0) sum += x[i - 1];
    if (i % kRow < kRow - 1) sum += x[i + 1];
    if (y[i] != sum) return false;
  }
  return true;
}

int main() {
  const bool histogram = testHistogram(), neighbours = testNeighbours();
  printf("cluster histogram: %s\nneighbours: %s\n", histogram ? "PASSED" : "FAILED",
         neighbours ? "PASSED" : "FAILED");
  return histogram && neighbours ? 0 : 1;
}
