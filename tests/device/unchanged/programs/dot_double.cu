// A dot product in double precision: sums of warps are added by one atomic operation a block, by
// the built-in one and by the loop of compare-and-swap that older GPUs need.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "check.cuh"

__device__ double atomicAddByCas(double* address, double val) {
  unsigned long long int* address_as_ull = (unsigned long long int*)address;
  unsigned long long int old = *(volatile unsigned long long int*)address_as_ull, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_ull, assumed,
                    __double_as_longlong(val + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}

template <bool kBuiltIn>
__global__ void dot(const double* x, const double* y, size_t n, double* result) {
  __shared__ double sums[32];
  double sum = 0.0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum = fma(x[i], y[i], sum);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = lane < blockDim.x / 32 ? sums[lane] : 0.0;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (lane != 0) return;
  if (kBuiltIn)
    atomicAdd(result, sum);
  else
    atomicAddByCas(result, sum);
}

int main() {
  const size_t n = 10007;
  double *x, *y, *result, expected = 0;
  CUDA_CHECK(cudaMallocManaged(&x, n * sizeof(double)));
  CUDA_CHECK(cudaMallocManaged(&y, n * sizeof(double)));
  CUDA_CHECK(cudaMallocManaged(&result, 2 * sizeof(double)));
  for (size_t i = 0; i < n; ++i) {
    x[i] = 1.0 / (double)(i + 1);
    y[i] = (double)(i % 13) - 6.0;
    expected += x[i] * y[i];
  }
  result[0] = result[1] = 0.0;
  dot<true><<<7, 128>>>(x, y, n, result);
  dot<false><<<5, 96>>>(x, y, n, result + 1);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());
  const bool right = close_to(result[0], expected, 1e-12) && close_to(result[1], expected, 1e-12);
  printf("%.15g %.15g, expected %.15g\n", result[0], result[1], expected);
  CUDA_CHECK(cudaFree(x));
  CUDA_CHECK(cudaFree(y));
  CUDA_CHECK(cudaFree(result));
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
