#include "yotta/device/emulator/simt_block.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// A neighbour's value without a barrier: right only if the neighbour happened to run first.
__global__ void forgot_the_barrier(const int* x, int* y) {
  __shared__ int part[128];
  part[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = part[127 - threadIdx.x];
}

__global__ void order_of_lanes(int* order) {
  int* next = dynamic_shared<int>();
  if (*next < 0) *next = 0;  // shared memory begins as bytes 0xff: -1
  order[(*next)++] = static_cast<int>(threadIdx.x);
}

__global__ void poisoned(float* x) {
  x[threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
  dynamic_shared<float>()[threadIdx.x] = 1.0f;
}

__global__ void poisoned_array(float* x) {
  __shared__ float part[64];
  x[threadIdx.x] = part[threadIdx.x];
  part[threadIdx.x] = 1.0f;
}

std::vector<int> order_with(uint64_t seed) {
  const EmulatorOptions before = emulator_options();
  emulator_options().seed = seed;
  DeviceArray<int> order(128);
  launch(order_of_lanes, 1, 128, 4, nullptr, order.data());
  emulator_options() = before;
  return order.to_host();
}

}  // namespace

TEST_CASE("lanes run in an order drawn from the seed: each once, warp by warp") {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto order = order_with(seed);
    CHECK(order == order_with(seed));
    CHECK(std::set<int>(order.begin(), order.end()).size() == 128);
    for (size_t i = 0; i < 128; ++i) CHECK(order[i] / 32 == order[i / 32 * 32] / 32);
    orders.insert(order);
  }
  CHECK(orders.size() == 20);
}

TEST_CASE("a missing barrier shows in the values") {
  std::vector<int> x(128), expected(128);
  for (int i = 0; i < 128; ++i) {
    x[static_cast<size_t>(i)] = 1000 + i;
    expected[static_cast<size_t>(127 - i)] = 1000 + i;
  }
  const DeviceArray<int> from(x);
  DeviceArray<int> to(128);
  launch(forgot_the_barrier, 1, 128, 0, nullptr, from.data(), to.data());
  CHECK(to.to_host() != expected);
}

TEST_CASE("shared memory is poisoned when a block starts") {
  DeviceArray<float> x(64);
  for (int launches = 0; launches < 2; ++launches) {
    launch(poisoned, 2, 64, 64 * sizeof(float), nullptr, x.data());
    for (const float value : x.to_host()) CHECK(std::isnan(value));
    x.fill_zero();
    launch(poisoned_array, 2, 64, 0, nullptr, x.data());
    for (const float value : x.to_host()) CHECK(std::isnan(value));
  }
}
