// A sparse matrix in compressed rows times a vector: a thread a row, a warp a row, and rows that
// are spread over a warp's tiles by their average length.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

struct Csr {
  int rows;
  const int* offsets;
  const int* columns;
  const float* values;
};

__global__ void spmvScalar(Csr a, const float* __restrict__ x, float* y) {
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < a.rows;
       row += gridDim.x * blockDim.x) {
    float sum = 0;
    for (int i = a.offsets[row]; i < a.offsets[row + 1]; ++i)
      sum += a.values[i] * __ldg(&x[a.columns[i]]);
    y[row] = sum;
  }
}

__global__ void spmvWarp(Csr a, const float* __restrict__ x, float* y) {
  const int lane = threadIdx.x & (warpSize - 1);
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  if (row >= a.rows) return;
  float sum = 0;
  for (int i = a.offsets[row] + lane; i < a.offsets[row + 1]; i += warpSize)
    sum += a.values[i] * __ldg(x + a.columns[i]);
  for (int offset = warpSize / 2; offset > 0; offset /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (lane == 0) y[row] = sum;
}

template <unsigned kLanes>
__global__ void spmvTiles(Csr a, const float* __restrict__ x, float* y) {
  auto tile = cg::tiled_partition<kLanes>(cg::this_thread_block());
  const int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
  if (row >= a.rows) return;
  float sum = 0;
  for (int i = a.offsets[row] + tile.thread_rank(); i < a.offsets[row + 1]; i += tile.size())
    sum += a.values[i] * x[a.columns[i]];
  sum = cg::reduce(tile, sum, cg::plus<float>());
  if (tile.thread_rank() == 0) y[row] = sum;
}

template <class T>
T* toDevice(const std::vector<T>& host) {
  T* device = nullptr;
  CUDA_CHECK(cudaMalloc(&device, host.size() * sizeof(T)));
  CUDA_CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

int main() {
  const int rows = 203, columns = 150;
  std::vector<int> offsets(1, 0), cols;
  std::vector<float> values, x(columns), expected(rows), y(rows);
  for (int c = 0; c < columns; ++c) x[c] = 0.01f * c - 0.5f;
  for (int r = 0; r < rows; ++r) {
    const int length = r % 17 == 3 ? 0 : (r * 31) % 90;
    double sum = 0;
    for (int k = 0; k < length; ++k) {
      const int c = (r + k * k + k) % columns;
      cols.push_back(c);
      values.push_back(1.0f / (1 + k + r % 5));
      sum += (double)values.back() * x[c];
    }
    expected[r] = sum;
    offsets.push_back((int)cols.size());
  }
  int *dOffsets = toDevice(offsets), *dColumns = toDevice(cols);
  float *dValues = toDevice(values), *dX = toDevice(x), *dY = toDevice(y);
  const Csr a{rows, dOffsets, dColumns, dValues};
  auto check = [&](const char* name) {
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(y.data(), dY, rows * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemset(dY, 0xff, rows * sizeof(float)));
    for (int r = 0; r < rows; ++r)
      if (!close_to(y[r], expected[r]))
        return printf("%s: row %d: %g, %g\n", name, r, y[r], expected[r]), false;
    return true;
  };
  spmvScalar<<<2, 64>>>(a, dX, dY);
  if (!check("scalar")) return 1;
  spmvWarp<<<(rows * 32 + 127) / 128, 128>>>(a, dX, dY);
  if (!check("warp")) return 1;
  spmvTiles<8><<<(rows + 15) / 16, 128>>>(a, dX, dY);
  if (!check("tiles")) return 1;
  for (void* p : {(void*)dOffsets, (void*)dColumns, (void*)dValues, (void*)dX, (void*)dY})
    CUDA_CHECK(cudaFree(p));
  return 0;
}
