// A kernel written with the emulator's headers; sass_raw.cu is the same in plain CUDA. sass.cmake
// checks that nvcc makes the same number of instructions of both: under nvcc the emulator costs
// nothing.
#include "yotta/device/atomics.hpp"
#include "yotta/device/kernel.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

__global__ void sum_rows(const float* x, float* sums, int* rows, int columns) {
  __shared__ float part[32];
  float4* row = dynamic_shared<float4>();
  row[threadIdx.x] = *reinterpret_cast<const float4*>(x + blockIdx.x * columns + 4 * threadIdx.x);
  __syncthreads();
  const float4 v = row[blockDim.x - 1 - threadIdx.x];
  float sum = v.x + v.y + v.z + v.w;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += part[warp];
  sums[blockIdx.x] = sum;
  atomicAdd(rows, 1);
}
