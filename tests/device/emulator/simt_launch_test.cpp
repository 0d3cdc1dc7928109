#include "yotta/device/emulator/simt_launch.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "yotta/device/device_memory.hpp"

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

}  // namespace

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

TEST_CASE("launches that no GPU could run are refused, with the line and the limit") {
  const auto refused = [](const char* words, Grid grid, dim3 block, size_t bytes) {
    try {
      launch(nothing, grid, block, bytes, nullptr);
      FAIL("was not refused");
    } catch (const KernelError& error) {
      const std::string message = error.what();
      INFO(message);
      CHECK(message.find(words) != std::string::npos);
      CHECK(message.starts_with("simt_launch_test.cpp:"));
    }
  };
  refused("1025 threads; a GPU allows 1 to 1024", 1, 1025, 0);
  refused("has 0 threads", 1, 0, 0);
  refused("64 along z", 1, {1, 1, 65}, 0);
  refused("at least 1", 0, 32, 0);
  refused("65535", {1, 65536}, 32, 0);
  refused(
      "too much shared memory: 232449 bytes a block were asked for, 232449 of them dynamic; an "
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
