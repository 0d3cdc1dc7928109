// nvcc compiles this file too.
#include "yotta/device/cooperative_groups.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/message_of.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Each step needs all blocks' values of the step before: shifts x by one place, across blocks.
__global__ void rotate(const int* x, int* y, int* z, int steps) {
  __shared__ int part[64], mine;  // mine lives through all meetings
  if (threadIdx.x == 0) mine = static_cast<int>(blockIdx.x);
  const auto grid = cooperative_groups::this_grid();
  const auto me = static_cast<unsigned>(grid.thread_rank()),
             all = static_cast<unsigned>(grid.num_threads());
  int *from = y, *to = z;
  y[me] = x[me];
  for (int i = 0; i < steps; ++i) {
    grid.sync();
    part[threadIdx.x] = from[(me + 1) % all];
    __syncthreads();
    to[me] = part[threadIdx.x] + mine - static_cast<int>(blockIdx.x);
    int* const other = from;
    from = to;
    to = other;
  }
}

}  // namespace

TEST_CASE("a grid meets, and every block sees what all have written before") {
  constexpr int blocks = 6, n = blocks * 64, steps = 5;
  std::vector<int> x(n);
  for (int i = 0; i < n; ++i) x[static_cast<size_t>(i)] = i;
  const DeviceArray<int> from(x);
  DeviceArray<int> y(n), z(n);
  launch_cooperative(rotate, blocks, 64, 0, nullptr, from.data(), y.data(), z.data(), steps);
  const std::vector<int> result = z.to_host();
  for (int i = 0; i < n; ++i) CHECK(result[static_cast<size_t>(i)] == (i + steps) % n);
}

#if !defined(__CUDACC__)
namespace {

__global__ void one_returns() {
  if (blockIdx.x == 2) return;
  cooperative_groups::this_grid().sync();
}

// Block i passes a token to block i + 1, through memory.
__global__ void pass_on(int* token, int* order) {
  __shared__ int turn;
  if (threadIdx.x == 0) {
    while (atomicAdd(token, 0) != static_cast<int>(blockIdx.x)) continue;
    turn = static_cast<int>(blockIdx.x);
  }
  __syncthreads();
  order[blockIdx.x * 32 + threadIdx.x] = turn;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(token, 1);
  }
}

// The other way round: the first block waits for the last.
__global__ void wait_for_the_last(int* flag) {
  if (threadIdx.x > 0) return;
  if (blockIdx.x + 1 == gridDim.x) atomicAdd(flag, 1);
  while (atomicAdd(flag, 0) == 0) continue;
}

}  // namespace

TEST_CASE("the grid meets only in a cooperative launch, of blocks that fit, that all arrive") {
  DeviceArray<int> x(64);
  CHECK(contains(
      message_of([&] { launch(rotate, 1, 64, 0, nullptr, x.data(), x.data(), x.data(), 1); }),
      "this_grid().sync() needs a cooperative launch"));
  const std::string large =
      message_of([&] { launch_cooperative(one_returns, 1057, 256, 0, nullptr); });
  CHECK(contains(large, "cudaErrorCooperativeLaunchTooLarge"));
  CHECK(contains(large,
                 "the grid has 1057 blocks. 1056 blocks fit on h100 at once: 8 blocks of 8 "
                 "warps on each of 132 SMs"));
  const std::string gone = message_of([] { launch_cooperative(one_returns, 4, 32, 0, nullptr); });
  CHECK(contains(gone, "deadlock between blocks"));
  CHECK(contains(gone, "waits in this_grid().sync() at cooperative_groups_test.cpp"));
  CHECK(contains(gone, "all 4 blocks have started, and 1 have ended"));
}

TEST_CASE("blocks wait for each other's flags, in every order") {
  emulator_options().blocks_at_once = true;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    emulator_options().seed = seed;
    DeviceArray<int> token(std::vector<int>{0}), order(8 * 32);
    launch(pass_on, 8, 32, 0, nullptr, token.data(), order.data());
    CHECK(token.to_host()[0] == 8);
    for (size_t i = 0; i < 256; ++i) CHECK(order.to_host()[i] == static_cast<int>(i / 32));
  }
  emulator_options() = {};
}

TEST_CASE("blocks that wait for one that does not fit are a deadlock, which says how many fit") {
  EmulatorOptions& options = emulator_options();
  options.blocks_at_once = true;
  options.chip.count = 2;
  DeviceArray<int> flag(std::vector<int>{0});
  const size_t much = 100 * 1024;  // 2 blocks an SM
  launch(wait_for_the_last, 4, 32, much, nullptr, flag.data());
  CHECK(flag.to_host()[0] == 1);
  flag.fill_zero();
  const std::string message =
      message_of([&] { launch(wait_for_the_last, 5, 32, much, nullptr, flag.data()); });
  options = {};
  CHECK(contains(message, "deadlock between blocks"));
  CHECK(contains(message, "1 of 5 blocks have not started"));
  CHECK(contains(message, "4 blocks fit on h100 at once: 2 blocks of 1 warps on each of 2 SMs"));
  CHECK(contains(message, "limited by shared memory"));
}
#endif
