// Activations as 8-bit floats with a scale: the largest magnitude of the whole tensor by an atomic
// operation on its bits, then one of each row.
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "check.cuh"

constexpr float kMaxE4m3 = 448.0f;

__device__ float blockMax(float x) {
  __shared__ float part[32];
  for (int offset = 16; offset > 0; offset >>= 1)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = part[0];
  for (int w = 1; w < blockDim.x / 32; ++w) x = fmaxf(x, part[w]);
  __syncthreads();
  return x;
}

// Floats that are not negative have the order of their bits.
__global__ void tensorAmax(const float* x, int n, float* amax) {
  float mine = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    mine = fmaxf(mine, fabsf(x[i]));
  mine = blockMax(mine);
  if (threadIdx.x == 0) atomicMax((int*)amax, __float_as_int(mine));
}

__global__ void quantizeTensor(const float* x, int n, const float* amax, __nv_fp8_storage_t* q) {
  const float scale = kMaxE4m3 / *amax;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    q[i] = __nv_cvt_float_to_fp8(x[i] * scale, __NV_SATFINITE, __NV_E4M3);
}

template <class Fp8>
__global__ void quantizeRows(const float* x, int columns, float largest, Fp8* q, float* scales) {
  const float* row = x + (size_t)blockIdx.x * columns;
  float mine = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) mine = fmaxf(mine, fabsf(row[c]));
  const float amax = blockMax(mine), scale = amax > 0.0f ? amax / largest : 1.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    q[(size_t)blockIdx.x * columns + c] = Fp8(row[c] / scale);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

template <class Fp8>
__global__ void dequantizeRows(const Fp8* q, const float* scales, int columns, float* y) {
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    const size_t at = (size_t)blockIdx.x * columns + c;
    y[at] = static_cast<float>(q[at]) * scales[blockIdx.x];
  }
}

// How far the numbers may be from what they were: half a step of the format.
template <class Fp8>
bool roundTrip(const std::vector<float>& x, const float* dX, int rows, int columns, float largest,
               float step) {
  Fp8* q;
  float *scales, *y;
  CUDA_CHECK(cudaMalloc(&q, x.size() * sizeof(Fp8)));
  CUDA_CHECK(cudaMalloc(&scales, rows * sizeof(float)));
  CUDA_CHECK(cudaMallocManaged(&y, x.size() * sizeof(float)));
  quantizeRows<<<rows, 64>>>(dX, columns, largest, q, scales);
  dequantizeRows<<<rows, 64>>>(q, scales, columns, y);
  CUDA_CHECK(cudaDeviceSynchronize());
  bool right = true;
  for (int r = 0; r < rows; ++r) {
    float amax = 0.0f;
    for (int c = 0; c < columns; ++c) amax = std::fmax(amax, std::fabs(x[r * columns + c]));
    for (int c = 0; c < columns; ++c) {
      const float was = x[r * columns + c], is = y[r * columns + c];
      right = right && std::fabs(is - was) <= step * std::fabs(was) + 1e-5f * amax;
    }
  }
  CUDA_CHECK(cudaFree(q));
  CUDA_CHECK(cudaFree(scales));
  CUDA_CHECK(cudaFree(y));
  return right;
}

int main() {
  const int rows = 6, columns = 200, n = rows * columns;
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i)
    x[i] = (i / columns == 4 ? 0.0f : 1.0f) * std::sin(0.37f * i) * (1 + 10 * (i / columns));
  float *dX, *amax;
  __nv_fp8_storage_t* q;
  CUDA_CHECK(cudaMalloc(&dX, n * sizeof(float)));
  CUDA_CHECK(cudaMallocManaged(&amax, sizeof(float)));
  CUDA_CHECK(cudaMallocManaged(&q, n));
  CUDA_CHECK(cudaMemcpy(dX, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  *amax = 0.0f;
  tensorAmax<<<3, 128>>>(dX, n, amax);
  quantizeTensor<<<3, 128>>>(dX, n, amax, q);
  CUDA_CHECK(cudaDeviceSynchronize());
  float expected = 0.0f;
  int largest = 0;
  for (int i = 0; i < n; ++i) {
    expected = std::fmax(expected, std::fabs(x[i]));
    largest = std::max(largest, q[i] & 0x7f);
  }
  if (*amax != expected || largest != 0x7e) return printf("amax %g, code %#x\n", *amax, largest), 1;
  const bool right = roundTrip<__nv_fp8_e4m3>(x, dX, rows, columns, kMaxE4m3, 1.0f / 16) &&
                     roundTrip<__nv_fp8_e5m2>(x, dX, rows, columns, 57344.0f, 1.0f / 8);
  CUDA_CHECK(cudaFree(dX));
  CUDA_CHECK(cudaFree(amax));
  CUDA_CHECK(cudaFree(q));
  return right ? 0 : 1;
}
