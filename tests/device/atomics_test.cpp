// nvcc compiles this file too.
#include "yotta/device/atomics.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void histogram(const int* x, int n, int* counts) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) atomicAdd(&counts[x[i]], 1);
}

__global__ void every_kind(unsigned* y, float* sum, double* precise, unsigned long long* wide) {
  const unsigned i = threadIdx.x;
  atomicAdd(sum, 0.5f);
  atomicAdd(precise, 0.25);
  atomicAdd(wide, 1ull << 40);
  atomicSub(&y[0], 1u);
  atomicMin(&y[1], i);
  atomicMax(&y[2], i);
  atomicAnd(&y[3], ~(1u << (i % 32)));
  atomicOr(&y[4], 1u << (i % 32));
  atomicXor(&y[5], 1u << (i % 32));
  atomicInc(&y[6], 4u);
}

__global__ void tickets(int* next, int* seen) { atomicAdd(&seen[atomicAdd(next, 1)], 1); }

// A lock: each thread in turn adds to a plain variable.
__global__ void lock(int* mutex, int* sum) {
  while (atomicCAS(mutex, 0, 1) != 0) {
  }
  atomicAdd(sum, static_cast<int>(threadIdx.x));
  atomicExch(mutex, 0);
}

}  // namespace

TEST_CASE("a histogram counts every element, from many blocks") {
  std::vector<int> x(5000), expected(7);
  for (size_t i = 0; i < x.size(); ++i)
    ++expected[static_cast<size_t>(x[i] = static_cast<int>(i * i % 7))];
  const DeviceArray<int> on_device(x);
  DeviceArray<int> counts(std::vector<int>(7, 0));
  launch(histogram, 20, 256, 0, nullptr, on_device.data(), 5000, counts.data());
  CHECK(counts.to_host() == expected);
}

TEST_CASE("every kind of atomic operation") {
  DeviceArray<unsigned> y(std::vector<unsigned>{100, 77, 3, 0xffffffffu, 0, 0xffu, 0});
  DeviceArray<float> sum(std::vector<float>{1.0f});
  DeviceArray<double> precise(std::vector<double>{1.0});
  DeviceArray<unsigned long long> wide(std::vector<unsigned long long>{5});
  launch(every_kind, 1, 32, 0, nullptr, y.data(), sum.data(), precise.data(), wide.data());
  CHECK(y.to_host() == std::vector<unsigned>{68, 0, 31, 0, 0xffffffffu, 0xffffff00u, 32 % 5});
  CHECK(sum.to_host()[0] == 17.0f);
  CHECK(precise.to_host()[0] == 9.0);
  CHECK(wide.to_host()[0] == (32ull << 40) + 5);
}

TEST_CASE("atomicAdd returns what was there: every thread gets a number of its own") {
  DeviceArray<int> next(std::vector<int>{0}), seen(std::vector<int>(1000, 0));
  launch(tickets, 10, 100, 0, nullptr, next.data(), seen.data());
  CHECK(seen.to_host() == std::vector<int>(1000, 1));
}

TEST_CASE("a thread that waits for a lock lets the others go on") {
  DeviceArray<int> mutex(std::vector<int>{0}), sum(std::vector<int>{0});
  launch(lock, 4, 64, 0, nullptr, mutex.data(), sum.data());
  CHECK(sum.to_host()[0] == 4 * 63 * 64 / 2);
}
