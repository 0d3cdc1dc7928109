// Blocks that meet or wait for each other, under checks: what orders their accesses, and what does
// not.
#include "yotta/device/cooperative_groups.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

template <bool Meet>
__global__ void neighbours(int* x, int* y) {
  __shared__ int part[32];
  part[threadIdx.x] = static_cast<int>(blockIdx.x);
  x[blockIdx.x * 32 + threadIdx.x] = part[threadIdx.x];  // line: writes
  if (Meet) cooperative_groups::this_grid().sync();
  const unsigned next = (blockIdx.x + 1) % gridDim.x;
  y[blockIdx.x * 32 + threadIdx.x] = x[next * 32 + threadIdx.x] + part[threadIdx.x];  // line: reads
}

template <bool Fence>
__global__ void hand_over(int* data, int* flag, int* out) {
  if (blockIdx.x == 0) {
    *data = 7;
    if (Fence) __threadfence();
    atomicAdd(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0) continue;
    *out = *data;
  }
}

__global__ void shared_is_garbage(int* y) {
  __shared__ int part[32];
  if (blockIdx.x == 0) part[threadIdx.x] = 1;
  cooperative_groups::this_grid().sync();
  y[blockIdx.x * 32 + threadIdx.x] = part[threadIdx.x];
}

}  // namespace

TEST_CASE("a meeting of the grid orders what blocks did before and after it") {
  DeviceArray<int> x(96), y(96);
  Profile profile;
  launch_cooperative(neighbours<true>, 3, 32, 0, nullptr, x.data(), y.data());
  CHECK(y.to_host()[0] == 1);  // each block's own part, and its neighbour's values
  CHECK(y.to_host()[95] == 2);
  CHECK(profile.launches() == 1);
  CHECK(profile.global_reads().requests == 3);
  check_says(error_of([&] {
               launch_cooperative(neighbours<false>, 3, 32, 0, nullptr, x.data(), y.data());
             }),
             {"race", "Blocks have no order"});
}

TEST_CASE("a flag hands data over if a fence stands before it") {
  emulator_options().blocks_at_once = true;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    emulator_options().seed = seed;
    DeviceArray<int> data(1), flag(std::vector<int>{0}), out(1);
    launch(hand_over<true>, 2, 1, 0, nullptr, data.data(), flag.data(), out.data());
    CHECK(out.to_host()[0] == 7);
    flag.fill_zero();
    check_says(error_of([&] {
                 launch(hand_over<false>, 2, 1, 0, nullptr, data.data(), flag.data(), out.data());
               }),
               {"race", "Blocks have no order"});
  }
  emulator_options() = {};
}

TEST_CASE("each block has its own shared memory, which holds garbage when it starts") {
  DeviceArray<int> y(64);
  check_says(error_of([&] { launch_cooperative(shared_is_garbage, 2, 32, 0, nullptr, y.data()); }),
             {"block (1, 0, 0)", "reads what nobody has written: part"});
}
