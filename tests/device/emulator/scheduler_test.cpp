#include "yotta/device/emulator/scheduler.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "support/refused.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/emulator/access_checker.hpp"

using namespace yotta;

namespace {

// Options for one test.
class Options {
 public:
  Options(int threads, uint64_t seed) {
    emulator_options().threads = threads;
    emulator_options().seed = seed;
  }
  ~Options() { emulator_options() = before_; }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

 private:
  EmulatorOptions before_ = emulator_options();
};

__global__ void block_sums(const int* x, int* sums) {
  __shared__ int part[64];
  part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  for (unsigned half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

__global__ void fails_from(unsigned first) {
  if (blockIdx.x >= first && threadIdx.x == 7)
    throw std::runtime_error(fmt::format("block {}", blockIdx.x));
  __syncthreads();
}

__global__ void nothing() {}

__global__ void much_static(float* x) {
  __shared__ float tile[64][64];
  __shared__ float other[64][129];
  tile[threadIdx.x][0] = x[threadIdx.x];
  other[threadIdx.x][128] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[63 - threadIdx.x][0] + other[63 - threadIdx.x][128];
}

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

#if YOTTA_ASAN
[[gnu::noinline]] int* address_left_behind() {
  int local[4] = {1, 2, 3, 4};
  int* volatile address = local;
  return address;
}

__global__ void uses_what_was_left(unsigned block, int* y) {
  int* const left = address_left_behind();
  __syncthreads();
  if (blockIdx.x == block && threadIdx.x == 3) *y = *left;
}

// What a process says on stderr that runs this kernel on one OS thread.
std::string said_of_use_in(unsigned block) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    const Options options(1, 5);
    DeviceArray<int> y(1);
    launch(uses_what_was_left, 8, 32, 0, nullptr, block, y.data());
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char some[512];
  for (ssize_t got; (got = read(ends[0], some, sizeof some)) > 0;)
    said.append(some, static_cast<size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return said;
}
#endif

}  // namespace

#if YOTTA_ASAN
TEST_CASE("AddressSanitizer finds a use of what a function left behind, in later blocks too") {
  const auto finds = [](unsigned block) {
    return said_of_use_in(block).find("stack-use-after-return") != std::string::npos;
  };
  CHECK(finds(0));
  CHECK(finds(7));
  CHECK_FALSE(finds(8));                                    // there is no such block
  CHECK_THROWS(launch(fails_from, 4, 64, 0, nullptr, 1u));  // leaves lanes where they stopped
  CHECK(finds(7));
  CHECK_FALSE(finds(8));
}
#endif

TEST_CASE("what a block needs counts its static arrays, and says how many fit on an SM") {
  CHECK(emulator::needs_of(block_sums, 64, 1000).shared == 64 * sizeof(int) + 1000);
  int blocks = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, much_static, 64, 0));
  CHECK(blocks == 4);  // 48.25 KiB and 1 KiB of 228
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
  CHECK(blocks == 2);
}

TEST_CASE("blocks are spread over OS threads, and the result does not depend on how many") {
  std::vector<int> x(64 * 100), expected(100);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int>(i * i % 101);
  for (size_t i = 0; i < x.size(); ++i) expected[i / 64] += x[i];
  const DeviceArray<int> on_device(x);
  for (const int threads : {1, 2, 3, 8}) {
    const Options options(threads, 5);
    DeviceArray<int> sums(100);
    launch(block_sums, 100, 64, 0, nullptr, on_device.data(), sums.data());
    CHECK(sums.to_host() == expected);
  }
}

TEST_CASE("of several failing blocks the first is reported, on any number of OS threads") {
  for (const int threads : {1, 2, 4})
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const Options options(threads, seed);
      CHECK_THROWS_WITH(launch(fails_from, 50, 64, 0, nullptr, 13u), "block 13");
      CHECK_NOTHROW(launch(fails_from, 13, 64, 0, nullptr, 13u));
    }
}

TEST_CASE("options of the emulator that cannot be are refused at the launch") {
  const auto launch_with = [](auto set) {
    return [set] {
      const Options kept(1, 1);
      set(emulator_options());
      launch(nothing, 1, 1, 0, nullptr);
    };
  };
  yotta_test::check_refused({
      {"EmulatorOptions::threads is -1, expected 0 or more; by default it is 0",
       launch_with([](EmulatorOptions& o) { o.threads = -1; })},
      {"EmulatorOptions::patience is 0, expected above 0, or infinite; by default it is 10",
       launch_with([](EmulatorOptions& o) { o.patience = 0; })},
      {"EmulatorOptions::patience is nan",
       launch_with([](EmulatorOptions& o) { o.patience = NAN; })},
      {"EmulatorOptions::chip.count is 0, expected 1 or more; an H100 has 132",
       launch_with([](EmulatorOptions& o) { o.chip.count = 0; })},
  });
}

TEST_CASE("launches that no GPU could run are refused, with the line and the limit") {
  const auto refused = [](const char* words, Grid grid, dim3 block, size_t bytes) {
    try {
      launch(nothing, grid, block, bytes, nullptr);
      FAIL("was not refused");
    } catch (const KernelError& error) {
      const std::string message = error.what();
      INFO(message);
      CHECK(message.find(words) != std::string::npos);
      CHECK(message.starts_with("scheduler_test.cpp:"));
    }
  };
  refused("1025 threads; a GPU allows 1 to 1024", 1, 1025, 0);
  refused("has 0 threads", 1, 0, 0);
  refused("64 along z", 1, {1, 1, 65}, 0);
  refused("at least 1", 0, 32, 0);
  refused("65535", {1, 65536}, 32, 0);
  refused(
      "too much shared memory: 232449 bytes per block were asked for, 232449 of them dynamic; an "
      "H100 has 232448",
      1, 32, 227 * 1024 + 1);
  CHECK_NOTHROW(launch(nothing, {2, 65535}, 1, 227 * 1024, nullptr));
}

TEST_CASE("static arrays have a limit of their own") {
  DeviceArray<float> x(64);
  try {
    launch(much_static, 1, 64, 0, nullptr, x.data());
    FAIL("was not refused");
  } catch (const KernelError& error) {
    const std::string message = error.what();
    INFO(message);
    CHECK(message.find("__shared__ arrays take 49408 bytes") != std::string::npos);
    CHECK(message.find("tile 16384") != std::string::npos);
    CHECK(message.find("dynamic_shared") != std::string::npos);
  }
}

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

TEST_CASE("in the unchecked build nobody watches") {
  CHECK(std::is_empty_v<emulator::AccessChecker>);
}
