// Atomic operations under the emulator's checks: they order nothing but themselves, and count as
// accesses.
#include "yotta/device/atomics.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

__global__ void count(int* sum) { atomicAdd(sum, 1); }

__global__ void count_and_read(int* sum, int* y) {
  atomicAdd(sum, 1);  // line: adds
  y[blockIdx.x * blockDim.x + threadIdx.x] = *sum;
}

__global__ void count_in_shared(int* y, int bins) {
  __shared__ int part[32];
  part[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(part + threadIdx.x % static_cast<unsigned>(bins), 1);
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x];
}

__global__ void beyond(int* x) { atomicAdd(x + 1, 1); }

}  // namespace

TEST_CASE("atomics of all blocks meet without a race, and are counted") {
  DeviceArray<int> sum(std::vector<int>{0});
  const Profile profile;
  CHECK(error_of([&] { launch(count, 4, 64, 0, nullptr, sum.data()); }) == "no error");
  CHECK(sum.to_host()[0] == 256);
  CHECK(profile.global_writes().requests == 8);
  CHECK(profile.global_writes().accesses == 256);
}

TEST_CASE("atomics on one word of shared memory come one after the other") {
  DeviceArray<int> y(32);
  for (const int bins : {1, 4, 32}) {
    CAPTURE(bins);
    const Profile profile;
    launch(count_in_shared, 1, 32, 0, nullptr, y.data(), bins);
    CHECK(profile.shared_writes().requests == 2);
    CHECK(profile.shared_writes().wavefronts == 1 + 32 / bins);
    CHECK(profile.shared_writes().conflict_free() == (bins == 32));
  }
}

TEST_CASE("a plain read of what others change atomically is a race") {
  DeviceArray<int> sum(std::vector<int>{0}), y(64);
  check_says(error_of([&] { launch(count_and_read, 1, 64, 0, nullptr, sum.data(), y.data()); }),
             {"race: line", "changes atomically"});
}

TEST_CASE("bounds and initialisation hold for atomics too") {
  DeviceArray<int> one(std::vector<int>{0}), fresh(1);
  check_says(error_of([&] { launch(beyond, 1, 1, 0, nullptr, one.data()); }),
             {"changes atomically 4 bytes out of bounds", "element 1 of 1"});
  check_says(error_of([&] { launch(count, 1, 1, 0, nullptr, fresh.data()); }),
             {"nobody has written"});
}
