// What fences and atomic operations order, and what they do not.
#include "yotta/device/emulator/releases.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/emulator/happens_before.hpp"

using namespace yotta;

namespace {

// How a block says that its part is there.
enum class Say { well, without_a_fence, without_a_barrier, elsewhere, within_the_block };

// Adds up what all threads of all blocks wrote, in the block that finishes last: the guide's
// example of memory fences.
template <Say How>
__global__ void last_block_sums(int* part, int* finished, int* elsewhere, int* sum) {
  __shared__ bool last;
  part[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if (How == Say::within_the_block)
    __threadfence_block();
  else if (How != Say::without_a_fence)
    __threadfence();
  if (How != Say::without_a_barrier) __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(How == Say::elsewhere ? elsewhere + blockIdx.x : finished, 1);
    last = blockIdx.x + 1 == gridDim.x;  // here blocks run in their order
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  int total = 0;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) total += part[i];  // line: sums
  *sum = total;
}

template <Say How>
std::string error_of_sums() {
  DeviceArray<int> part(5 * 64), finished(std::vector<int>{0, 0}),
      elsewhere(std::vector<int>(8, 0)), sum(1);
  return error_of([&] {
    launch(last_block_sums<How>, 5, 64, 0, nullptr, part.data(), finished.data(), elsewhere.data(),
           sum.data());
  });
}

// A lock of atomicCAS and atomicExch around a sum without atomics.
template <bool Fence>
__global__ void adds_under_a_lock(int* lock, int* sum) {
  bool done = false;
  while (!done)
    if (atomicCAS(lock, 0, 1) == 0) {
      *sum += 1;  // line: adds
      if (Fence) __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
}

// A flag in volatile memory: the guide's way before cuda::atomic.
__global__ void passes_a_value(int* flag, int* value, int* y) {
  volatile int* const ready = flag;
  if (threadIdx.x == 0) {
    *value = 42;
    __threadfence_block();
    *ready = 1;
  } else {
    while (*ready == 0) {
    }
    __threadfence_block();
    y[threadIdx.x] = *value;
  }
}

// Lane 0 has passed its fence before it meets the others, so theirs is not released.
template <bool FenceLast>
__global__ void warp_publishes(int* part, int* flag, int* y) {
  if (blockIdx.x == 0) {
    part[threadIdx.x] = 1;
    if (!FenceLast) __threadfence();
    __syncwarp();
    if (FenceLast) __threadfence();
    if (threadIdx.x == 0) atomicAdd(flag, 1);
  } else {
    atomicAdd(flag, 0);
    y[threadIdx.x] = part[31 - threadIdx.x];  // line: takes
  }
}

// Block 0 tells block 1, and block 1 tells block 2.
__global__ void passes_it_on(int* part, int* flags, int* y) {
  if (blockIdx.x == 0) *part = 1;
  if (blockIdx.x > 0) atomicAdd(flags + blockIdx.x - 1, 0);
  if (blockIdx.x == 2) *y = *part;
  __threadfence();
  atomicAdd(flags + blockIdx.x, 1);
}

// Each thread takes every lock several times, in an order of its own.
__global__ void takes_many_locks(int* locks, int* sums) {
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned at = (threadIdx.x * 7 + i * 5) % 16;
    for (bool done = false; !done;)
      if (atomicCAS(locks + at, 0, 1) == 0) {
        sums[at] += 1;
        __threadfence();
        atomicExch(locks + at, 0);
        done = true;
      }
  }
}

}  // namespace

TEST_CASE("a fence releases what was known at the fence") {
  const auto error = [](auto kernel) {
    DeviceArray<int> part(32), flag(std::vector<int>{0}), y(32);
    return error_of([&] { launch(kernel, 2, 32, 0, nullptr, part.data(), flag.data(), y.data()); });
  };
  CHECK(error(warp_publishes<true>) == "no error");
  check_says(error(warp_publishes<false>), {line_at("takes"), "race"});
}

TEST_CASE("what is acquired is released further") {
  DeviceArray<int> part(1), flags(std::vector<int>(3, 0)), y(1);
  CHECK(error_of([&] {
          launch(passes_it_on, 3, 1, 0, nullptr, part.data(), flags.data(), y.data());
        }) == "no error");
}

TEST_CASE("many locks that pass from thread to thread are looked up in no time") {
  DeviceArray<int> locks(std::vector<int>(16, 0)), sums(std::vector<int>(16, 0));
  CHECK(error_of([&] {
          launch(takes_many_locks, 1, 128, 0, nullptr, locks.data(), sums.data());
        }) == "no error");
  CHECK(sums.to_host() == std::vector<int>(16, 256));
}

TEST_CASE("a release covers what came before, for those who acquire after it") {
  emulator::Releases first, second;
  first.add({{7, 100}}, {});
  CHECK(first.cover(7, 0, 99, 1));
  CHECK_FALSE(first.cover(7, 0, 100, 1));  // after the fence
  CHECK_FALSE(first.cover(7, 0, 99, 0));   // before the release
  CHECK_FALSE(first.cover(8, 0, 99, 1));
  second.add({{9, 200}}, {{&first, 1}});
  CHECK(second.inherited() == emulator::Acquired{{&first, 1}});
  first.add({{7, 300}}, {});
  CHECK_FALSE(first.cover(7, 0, 150, 1));  // what came later was not inherited
}

TEST_CASE("the last block reads what the others published") {
  CHECK(error_of_sums<Say::well>() == "no error");
  check_says(error_of_sums<Say::without_a_fence>(), {line_at("sums"), "race"});
  check_says(error_of_sums<Say::without_a_barrier>(), {line_at("sums"), "race"});
  check_says(error_of_sums<Say::elsewhere>(), {line_at("sums"), "race"});
  check_says(error_of_sums<Say::within_the_block>(), {line_at("sums"), "race"});
}

TEST_CASE("a lock orders its owners, if a fence comes before it is given back") {
  DeviceArray<int> lock(std::vector<int>{0}), sum(std::vector<int>{0});
  CHECK(error_of([&] {
          launch(adds_under_a_lock<true>, 3, 64, 0, nullptr, lock.data(), sum.data());
        }) == "no error");
  CHECK(sum.to_host()[0] == 3 * 64);
  check_says(error_of([&] {
               launch(adds_under_a_lock<false>, 3, 64, 0, nullptr, lock.data(), sum.data());
             }),
             {line_at("adds"), "race"});
}

TEST_CASE("a volatile flag with fences passes a value on, and waiting for it ends") {
  for (const uint64_t seed : {1, 2, 3}) {
    const EmulatorOptions before = emulator_options();
    emulator_options().seed = seed;
    DeviceArray<int> flag(std::vector<int>{0}), value(1), y(64);
    CHECK(error_of([&] {
            launch(passes_a_value, 1, 64, 0, nullptr, flag.data(), value.data(), y.data());
          }) == "no error");
    CHECK(y.to_host()[63] == 42);
    emulator_options() = before;
  }
}

TEST_CASE("what a block has released to its own threads goes with the block") {
  emulator::LaunchOrder launch;
  emulator::Order order(launch, 64);
  const auto one_block = [&](uint64_t number, emulator::FenceScope scope) {
    order.block_starts(number);
    order.fence(0, emulator::FenceScope::block);
    order.meet(0, 1000);
    order.fence(0, scope);
    order.meet(0, 1000);
  };
  for (uint64_t number = 0; number < 3; ++number) one_block(number, emulator::FenceScope::block);
  CHECK(launch.of_ended_blocks.empty());
  CHECK(launch.releases.empty());
  one_block(3, emulator::FenceScope::device);  // others may have acquired what its threads had
  order.block_starts(4);
  CHECK(launch.of_ended_blocks.size() == 1);
}
