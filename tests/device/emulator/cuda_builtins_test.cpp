// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/emulator/cuda_builtins.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
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

// One __syncwarp() for the warp, on two lines.
__global__ void meets_from_two_branches(int* y) {
  __shared__ int part[32];
  const unsigned lane = threadIdx.x;
  part[lane] = static_cast<int>(lane);
  if (lane < 16)
    __syncwarp();
  else
    __syncwarp();
  y[lane] = part[31 - lane];
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

#if !defined(__CUDACC__)
struct Reversal {
  int value = 0;
  int* result = nullptr;
};

// An instruction of the whole warp: lane i gets the value of lane 31 - i.
int reversed(int value, Where where = Where::current()) {
  int result = 0;
  whole_warp(
      "reversed()", Reversal{value, &result},
      +[](const Reversal(&lanes)[32], Where) {
        for (int i = 0; i < 32; ++i) *lanes[i].result = lanes[31 - i].value;
      },
      where);
  return result;
}

__global__ void reverse(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = reversed(10 * i);
}
__global__ void reverse_without_one(int* out) {
  if (threadIdx.x == 7) return;
  out[threadIdx.x] = reversed(1);
}

std::string error_of(void (*kernel)(int*), unsigned threads) {
  DeviceArray<int> out(96);
  try {
    launch(kernel, 1, threads, 0, nullptr, out.data());
  } catch (const KernelError& error) {
    return error.what();
  }
  return "no error";
}
#endif

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

TEST_CASE("shuffles move registers as CUDA's guide says, in groups of `width` lanes") {
  for (const int width : {32, 8, 2})
    for (const int amount : {0, 5, 31}) {
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

TEST_CASE("lanes meet in __syncwarp() from two branches") {
  DeviceArray<int> y(32);
  launch(meets_from_two_branches, 1, 32, 0, nullptr, y.data());
  for (size_t lane = 0; lane < 32; ++lane) CHECK(y.to_host()[lane] == 31 - static_cast<int>(lane));
}

#if !defined(__CUDACC__)
TEST_CASE("a lane that has returned has no value") {
  says(error_of(reads_one_that_has_returned),
       {"cuda_builtins_test.cpp:", "thread (19, 0, 0)",
        "__shfl_down_sync() reads from lane 20, which is inactive"});
  says(error_of(reads_one_that_has_returned, 7),
       {"thread (6, 0, 0)", "reads from lane 7, which is inactive"});
}

TEST_CASE("a warp that cannot meet is told who waits where") {
  says(error_of(not_in_its_own_mask), {"__syncwarp()", "mask 0x0000ffff does not name"});
  says(error_of(one_lane_goes_to_the_barrier),
       {"waits in __syncwarp()",
        "thread (3, 0, 0) (lane 3) waits in __syncthreads() at cuda_builtins_test.cpp:"});
  says(error_of(two_lines), {"different instructions", "__shfl_sync()", "__any_sync()"});
}
#endif

#if !defined(__CUDACC__)
TEST_CASE("the instruction is carried out once for each warp, on the operands of its 32 lanes") {
  DeviceArray<int> out(96);
  launch(reverse, 1, 96, 0, nullptr, out.data());
  const std::vector<int> got = out.to_host();
  for (int i = 0; i < 96; ++i)
    CHECK(got[static_cast<size_t>(i)] == 10 * (i / 32 * 32 + 31 - i % 32));
}

TEST_CASE("a warp that is not whole is refused, with line, count and cure") {
  const std::string one = error_of(reverse_without_one, 32), few = error_of(reverse, 40);
  CAPTURE(one);
  CAPTURE(few);
  CHECK(one.find("cuda_builtins_test.cpp:") != std::string::npos);
  CHECK(one.find("reversed() needs all 32 lanes of the warp, and 1 have returned") !=
        std::string::npos);
  CHECK(few.find("and 24 have returned or do not exist") != std::string::npos);
  CHECK(few.find("launch blocks of 32 threads or multiples") != std::string::npos);
}
#endif

#if !defined(__CUDACC__)
TEST_CASE(
    "in the unchecked build a wrapped instruction's notes do nothing, even outside of kernels") {
  int value = 0;
  const void* const addresses[] = {&value};
  const int lanes[] = {0};
  CHECK_NOTHROW(emulator::note_read(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_write(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_read_group(addresses, lanes, 1, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_copy_begins(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_copy_ends(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::count_instruction("mma.sync", Where::current()));
  CHECK_NOTHROW(emulator::count_flops(2, Where::current()));
}
#endif
