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

// Adds up what all blocks wrote, in the block that finishes last: the guide's example of memory
// fences.
template <bool Fence>
__global__ void last_block_sums(int* part, int* finished, int* sum) {
  __shared__ bool last;
  part[blockIdx.x] = static_cast<int>(blockIdx.x);
  if (Fence) __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(finished, 1) == static_cast<int>(gridDim.x) - 1;
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  int total = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) total += part[b];  // line: sums
  *sum = total;
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

TEST_CASE("a plain read of what others change atomically is a race") {
  DeviceArray<int> sum(std::vector<int>{0}), y(64);
  check_says(error_of([&] { launch(count_and_read, 1, 64, 0, nullptr, sum.data(), y.data()); }),
             {"race: line", "changes atomically"});
}

TEST_CASE("the last block may read what others wrote if they published it with a fence") {
  DeviceArray<int> part(5), finished(std::vector<int>{0}), sum(1);
  CHECK(error_of([&] {
          launch(last_block_sums<true>, 5, 1, 0, nullptr, part.data(), finished.data(), sum.data());
        }) == "no error");
  CHECK(sum.to_host()[0] == 10);
  finished.fill_zero();
  check_says(error_of([&] {
               launch(last_block_sums<false>, 5, 1, 0, nullptr, part.data(), finished.data(),
                      sum.data());
             }),
             {line_at("sums"), "race", "Blocks have no order"});
}

TEST_CASE("bounds and initialisation hold for atomics too") {
  DeviceArray<int> one(std::vector<int>{0}), fresh(1);
  check_says(error_of([&] { launch(beyond, 1, 1, 0, nullptr, one.data()); }),
             {"changes atomically 4 bytes out of bounds", "element 1 of 1"});
  check_says(error_of([&] { launch(count, 1, 1, 0, nullptr, fresh.data()); }),
             {"nobody has written"});
}
