// Filters that an object launches on a stream of its own, one after the other: the kernel is a
// member, and so are the sizes of its launch.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "check.cuh"

extern __shared__ unsigned char raw[];

template <class T>
__device__ T blockSum(T* part, T mine) {
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  const T sum = part[0];
  __syncthreads();
  return sum;
}

__global__ void sums(const float* x, const int* mask, float* y, int n) {
  float* part = reinterpret_cast<float*>(raw);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool takes = i < n && (mask == nullptr || mask[i] != 0);
  const float sum = blockSum(part, takes ? x[i] : 0.0f);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

__global__ void counts(const float* x, const int* mask, float* y, int n) {
  int* part = reinterpret_cast<int*>(raw);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool takes = i < n && (mask == nullptr || mask[i] != 0);
  const int count = blockSum(part, takes && x[i] > 0.0f ? 1 : 0);
  if (threadIdx.x == 0) y[blockIdx.x] = (float)count;
}

#ifdef ALL_AT_ONCE
static bool wait(cudaStream_t) {
#else
static bool wait(cudaStream_t stream) {
  CUDA_CHECK(cudaStreamSynchronize(stream));
#endif
  return true;
}

struct Shape {
  dim3 gridDim, blockDim;
  size_t sharedBytes;
};

class FilterBank {
 public:
  using Kernel = void (*)(const float*, const int*, float*, int);

  FilterBank(int n, int threads) : n_(n) {
    shape_.blockDim = threads;
    shape_.gridDim = (n + threads - 1) / threads;
    shape_.sharedBytes = threads * sizeof(float);
    CUDA_CHECK(cudaStreamCreate(&stream_));
  }
  ~FilterBank() { cudaStreamDestroy(stream_); }

  void use(Kernel kernel) { kernel_ = kernel; }
  void run(const float* x, float* y) {
    kernel_<<<shape_.gridDim, shape_.blockDim, shape_.sharedBytes, stream_>>>(x, 0, y, n_);
  }
  void runMasked(const float* x, const int* mask, float* y) {
    kernel_<<<shape_.gridDim, shape_.blockDim, shape_.sharedBytes, stream_>>>(x, mask, y, n_);
  }
  bool finish() { return wait(stream_); }
  unsigned blocks() const { return shape_.gridDim.x; }

 private:
  int n_;
  Shape shape_;
  cudaStream_t stream_;
  Kernel kernel_ = nullptr;
};

int main() {
  const int n = 300, threads = 64;
  float *x, *y;
  int* mask;
  CUDA_CHECK(cudaMallocManaged(&x, n * sizeof(float)));
  CUDA_CHECK(cudaMallocManaged(&mask, n * sizeof(int)));
  for (int i = 0; i < n; ++i) {
    x[i] = (float)((i * 29) % 41) - 20;
    mask[i] = i % 3 == 0;
  }
  FilterBank bank(n, threads);
  const int blocks = bank.blocks();
  CUDA_CHECK(cudaMallocManaged(&y, 3 * blocks * sizeof(float)));
  bank.use(sums);
  bank.run(x, y);
  bank.runMasked(x, mask, y + blocks);
  bank.use(counts);
  bank.run(x, y + 2 * blocks);
  bank.use(nullptr);
  bank.finish();
  for (int b = 0; b < blocks; ++b) {
    float all = 0, some = 0, positive = 0;
    for (int i = b * threads; i < n && i < (b + 1) * threads; ++i) {
      all += x[i];
      if (mask[i]) some += x[i];
      positive += x[i] > 0.0f;
    }
    if (y[b] != all || y[blocks + b] != some || y[2 * blocks + b] != positive)
      return printf("block %d: %g %g %g\n", b, y[b], y[blocks + b], y[2 * blocks + b]), 1;
  }
  CUDA_CHECK(cudaFree(x));
  CUDA_CHECK(cudaFree(y));
  CUDA_CHECK(cudaFree(mask));
  return 0;
}
