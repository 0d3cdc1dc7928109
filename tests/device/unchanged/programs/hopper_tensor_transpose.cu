// The transpose of a matrix by tensor maps: a tile comes as a box, is turned in shared memory, and
// goes as a box. The last tiles hang over the edges.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/ptx>

#include <cstdio>
#include <vector>

#include "check.cuh"

namespace ptx = cuda::ptx;

constexpr int kTile = 32;

__global__ void transpose(const __grid_constant__ CUtensorMap in,
                          const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(128) float tile[kTile][kTile], turned[kTile][kTile];
  __shared__ uint64_t there;
  const int x = blockIdx.x * kTile, y = blockIdx.y * kTile;
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    ptx::mbarrier_init(&there, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    const int32_t from[2] = {x, y};
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &there,
                                   sizeof(tile));
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &in, from, &there);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(&there, 0)) {
  }
  for (int row = threadIdx.y; row < kTile; row += blockDim.y)
    turned[threadIdx.x][row] = tile[row][threadIdx.x];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    const int32_t to[2] = {y, x};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &out, to, turned);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}

CUtensorMap mapOf(float* data, uint64_t rows, uint64_t columns) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                              cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) exit(EXIT_FAILURE);
  const auto encode = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
  CUtensorMap map;
  const cuuint64_t size[2] = {columns, rows}, stride[1] = {columns * sizeof(float)};
  const cuuint32_t box[2] = {kTile, kTile}, step[2] = {1, 1};
  const CUresult code = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, size, stride, box,
                               step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) exit(EXIT_FAILURE);
  return map;
}

int main() {
  const int rows = 100, columns = 72, n = rows * columns;
  std::vector<float> a(n), b(n);
  for (int i = 0; i < n; ++i) a[i] = float(i);
  float *deviceA, *deviceB;
  CUDA_CHECK(cudaMalloc(&deviceA, n * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&deviceB, n * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(deviceA, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile), block(kTile, 4);
  transpose<<<grid, block>>>(mapOf(deviceA, rows, columns), mapOf(deviceB, columns, rows));
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(b.data(), deviceB, n * sizeof(float), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(deviceA));
  CUDA_CHECK(cudaFree(deviceB));
  int wrong = 0;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) wrong += b[j * rows + i] != a[i * columns + j];
  printf("transpose by tensor maps: %s\n", wrong == 0 ? "PASSED" : "FAILED");
  return wrong == 0 ? 0 : 1;
}
