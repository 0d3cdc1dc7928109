// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/emulator/cuda_builtins.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void count_votes(int limit, int* y) {
  const int mine = static_cast<int>(threadIdx.x) < limit ? 5 : 0;
  const int count = __syncthreads_count(mine);
  const int all = __syncthreads_and(mine), any = __syncthreads_or(mine);
  y[threadIdx.x] = 100 * count + 10 * (all != 0) + (any != 0);
}

__global__ void __launch_bounds__(64) sizes(unsigned* y) {
  if (threadIdx.x != 63) return;
  y[0] = blockDim.x, y[1] = blockDim.y, y[2] = gridDim.x, y[3] = gridDim.z, y[4] = blockIdx.z,
  y[5] = warpSize;
}

}  // namespace

TEST_CASE("__syncthreads_count, _and, _or tell all threads about all predicates") {
  for (const int limit : {0, 1, 77, 100}) {
    DeviceArray<int> y(100);
    launch(count_votes, 1, 100, 0, nullptr, limit, y.data());
    const int expected = 100 * limit + 10 * (limit == 100) + (limit > 0);
    CHECK(y.to_host() == std::vector<int>(100, expected));
  }
}

TEST_CASE("a thread knows the sizes of its block and grid") {
  DeviceArray<unsigned> y(6);
  launch(sizes, {2, 1, 3}, {64, 1, 1}, 0, nullptr, y.data());
  const auto seen = y.to_host();
  CHECK(std::vector<unsigned>(seen.begin(), seen.begin() + 4) ==
        std::vector<unsigned>{64, 1, 2, 3});
  CHECK(seen[5] == 32);
}
