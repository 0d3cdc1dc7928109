// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/emulator/simt_warp.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

constexpr unsigned all_lanes = 0xffffffffu;

enum class Way { lane, up, down, exclusive_or };

__global__ void shuffle_by(Way way, int amount, int width, int* y) {
  const int lane = static_cast<int>(threadIdx.x);
  int got = 0;
  switch (way) {
    case Way::lane: got = __shfl_sync(all_lanes, 100 + lane, amount, width); break;
    case Way::up:
      got = __shfl_up_sync(all_lanes, 100 + lane, static_cast<unsigned>(amount), width);
      break;
    case Way::down:
      got = __shfl_down_sync(all_lanes, 100 + lane, static_cast<unsigned>(amount), width);
      break;
    case Way::exclusive_or: got = __shfl_xor_sync(all_lanes, 100 + lane, amount, width); break;
  }
  y[lane] = got - 100;
}

std::vector<int> shuffled(Way way, int amount, int width = 32) {
  DeviceArray<int> y(32);
  launch(shuffle_by, 1, 32, 0, nullptr, way, amount, width, y.data());
  return y.to_host();
}

__global__ void sum_of_warps(const double* x, double* sums) {
  double sum = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned step = 16; step > 0; step /= 2) sum += __shfl_down_sync(all_lanes, sum, step);
  if (threadIdx.x % 32 == 0) sums[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = sum;
}

__global__ void votes(unsigned* y) {
  const unsigned lane = threadIdx.x;
  const unsigned odd = __ballot_sync(all_lanes, lane % 2);
  const int any = __any_sync(all_lanes, lane == 31), none = __any_sync(all_lanes, 0);
  const int all = __all_sync(all_lanes, lane < 32), not_all = __all_sync(all_lanes, lane != 3);
  if (lane == 9) {
    y[0] = odd;
    y[1] = static_cast<unsigned>(8 * any + 4 * none + 2 * all + not_all);
  }
}

// Even and odd lanes take different branches, each with the mask of its own.
__global__ void two_groups(int* y) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane % 2 == 0)
    y[lane] = __shfl_sync(0x55555555u, lane, 30);
  else
    y[lane] = __shfl_sync(0xaaaaaaaau, lane, 31);
}

__global__ void some_have_returned(int* y) {
  if (threadIdx.x >= 20) return;
  y[threadIdx.x] = __shfl_up_sync(all_lanes, static_cast<int>(threadIdx.x), 1);
}

#if !defined(__CUDACC__)  // a GPU does not say what is wrong
__global__ void reads_one_that_has_returned() {
  if (threadIdx.x >= 20) return;
  __shfl_down_sync(all_lanes, 1.0f, 1);
}

__global__ void not_in_its_own_mask() { __syncwarp(0x0000ffffu); }

__global__ void one_lane_goes_to_the_barrier() {
  if (threadIdx.x == 3) __syncthreads();
  __syncwarp();
  __syncthreads();
}

__global__ void two_lines() {
  if (threadIdx.x < 16)
    __shfl_sync(all_lanes, 1, 0);
  else
    __any_sync(all_lanes, 1);
}

std::string error_of(void (*kernel)(), int threads = 32) {
  try {
    launch(kernel, 1, threads, 0, nullptr);
  } catch (const KernelError& error) {
    return error.what();
  }
  return "no error";
}

bool says(const std::string& message, std::initializer_list<const char*> words) {
  INFO(message);
  bool all = true;
  for (const char* each : words) {
    const bool found = message.find(each) != std::string::npos;
    CHECK_MESSAGE(found, each);
    all = all && found;
  }
  return all;
}
#endif

}  // namespace

TEST_CASE("shuffles move registers as CUDA's guide says, in groups of `width` lanes") {
  for (const int width : {32, 16, 8, 2})
    for (const int amount : {0, 1, 5, 16, 31}) {
      const auto from_lane = shuffled(Way::lane, amount, width),
                 up = shuffled(Way::up, amount, width);
      const auto down = shuffled(Way::down, amount, width);
      const auto by_xor = shuffled(Way::exclusive_or, amount, width);
      for (int lane = 0; lane < 32; ++lane) {
        const auto at = static_cast<size_t>(lane);
        const int group = lane / width * width;
        CHECK(from_lane[at] == group + amount % width);
        CHECK(up[at] == (lane - amount < group ? lane : lane - amount));
        CHECK(down[at] == (lane + amount >= group + width ? lane : lane + amount));
        CHECK(by_xor[at] == ((lane ^ amount) >= group + width ? lane : lane ^ amount));
      }
    }
}

TEST_CASE("a warp sums its values without shared memory") {
  std::vector<double> x(3 * 128), expected(12);
  for (size_t i = 0; i < x.size(); ++i) expected[i / 32] += x[i] = static_cast<double>(i * i);
  const DeviceArray<double> on_device(x);
  DeviceArray<double> sums(12);
  launch(sum_of_warps, 3, 128, 0, nullptr, on_device.data(), sums.data());
  CHECK(sums.to_host() == expected);
}

TEST_CASE("votes: ballot, any, all") {
  DeviceArray<unsigned> y(2);
  launch(votes, 1, 32, 0, nullptr, y.data());
  CHECK(y.to_host() == std::vector<unsigned>{0xaaaaaaaau, 8 + 2});
}

TEST_CASE("each branch may shuffle among its own lanes") {
  DeviceArray<int> y(32);
  launch(two_groups, 1, 32, 0, nullptr, y.data());
  for (size_t lane = 0; lane < 32; ++lane) CHECK(y.to_host()[lane] == (lane % 2 == 0 ? 30 : 31));
}

TEST_CASE("lanes that have returned need not take part") {
  DeviceArray<int> y(20);
  launch(some_have_returned, 1, 32, 0, nullptr, y.data());
  for (size_t lane = 0; lane < 20; ++lane)
    CHECK(y.to_host()[lane] == std::max<int>(static_cast<int>(lane) - 1, 0));
}

#if !defined(__CUDACC__)
TEST_CASE("a lane that has returned has no value") {
  says(error_of(reads_one_that_has_returned),
       {"simt_warp_test.cpp:", "thread (19, 0, 0)",
        "__shfl_down_sync() reads from lane 20, which is inactive"});
  says(error_of(reads_one_that_has_returned, 7),
       {"thread (6, 0, 0)", "reads from lane 7, which is inactive"});
}

TEST_CASE("a warp that cannot meet is told who waits where") {
  says(error_of(not_in_its_own_mask), {"__syncwarp()", "mask 0x0000ffff does not name"});
  says(error_of(one_lane_goes_to_the_barrier),
       {"waits in __syncwarp()",
        "thread (3, 0, 0) (lane 3) waits in __syncthreads() at simt_warp_test.cpp:"});
  says(error_of(two_lines), {"different instructions", "__shfl_sync()", "__any_sync()"});
}
#endif
