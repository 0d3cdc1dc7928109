// nvcc compiles this file too: every kernel here runs unchanged on a GPU.
#include "yotta/device/kernel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void saxpy(int n, float a, const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = a * x[i] + y[i];
}

// Each thread writes where it is, so that the host can count who came.
__global__ void where_am_i(unsigned* seen) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  seen[block * threads + thread] = 1000000 * block + thread;
}

// Reverses each block's part of x through static shared memory.
template <int Threads>
__global__ void reverse_static(int* x) {
  __shared__ int part[Threads];
  part[threadIdx.x] = x[blockIdx.x * Threads + threadIdx.x];
  __syncthreads();
  x[blockIdx.x * Threads + threadIdx.x] = part[Threads - 1 - threadIdx.x];
}

// The same through dynamic shared memory.
__global__ void reverse_dynamic(int* x) {
  int* part = dynamic_shared<int>();
  part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  x[blockIdx.x * blockDim.x + threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}

struct Scale {
  double factor;
  int offset;
};

__device__ double scaled(Scale scale, double x) { return scale.factor * x + scale.offset; }

__global__ void apply(Scale scale, double* x) { x[threadIdx.x] = scaled(scale, x[threadIdx.x]); }

std::vector<int> counting(int n) {
  std::vector<int> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::vector<int> reversed_by(int threads, std::vector<int> values) {
  for (auto begin = values.begin(); begin < values.end(); begin += threads)
    std::reverse(begin, begin + threads);
  return values;
}

}  // namespace

TEST_CASE("a kernel runs on every element, also when the last block is not full") {
  for (const int n : {1, 31, 256, 1000}) {
    const std::vector<float> ones(static_cast<size_t>(n), 1.0f);
    DeviceArray<float> x(ones), y(ones);
    launch(saxpy, (n + 255) / 256, 256, 0, nullptr, n, 2.0f, x.data(), y.data());
    CHECK(y.to_host() == std::vector<float>(static_cast<size_t>(n), 3.0f));
  }
}

TEST_CASE("grids and blocks have three dimensions") {
  const dim3 grid(2, 3, 4), block(3, 5, 2);
  DeviceArray<unsigned> seen(24 * 30);
  launch(where_am_i, grid, block, 0, nullptr, seen.data());
  std::vector<unsigned> expected;
  for (unsigned b = 0; b < 24; ++b)
    for (unsigned t = 0; t < 30; ++t) expected.push_back(1000000 * b + t);
  CHECK(seen.to_host() == expected);

  DeviceArray<unsigned> same(24 * 30);
  launch(where_am_i, {2, 3, 4}, {3, 5, 2}, 0, nullptr, same.data());
  CHECK(same.to_host() == expected);
}

TEST_CASE("shared memory, static and dynamic, is one per block") {
  const auto values = counting(4096);
  SUBCASE("static, 1024 threads per block") {
    DeviceArray<int> x(values);
    launch(reverse_static<1024>, 4, 1024, 0, nullptr, x.data());
    CHECK(x.to_host() == reversed_by(1024, values));
  }
  SUBCASE("dynamic, any number of threads") {
    for (const int threads : {1, 32, 64, 512}) {
      DeviceArray<int> x(values);
      launch(reverse_dynamic, 4096 / threads, threads, threads * sizeof(int), nullptr, x.data());
      CHECK(x.to_host() == reversed_by(threads, values));
    }
  }
}

TEST_CASE("arguments are passed by value, also structs") {
  DeviceArray<double> x(std::vector<double>{1.0, 2.0, 3.0});
  launch(apply, 1, 3, 0, nullptr, Scale{10.0, 1}, x.data());
  CHECK(x.to_host() == std::vector<double>{11.0, 21.0, 31.0});
}
