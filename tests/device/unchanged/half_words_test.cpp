#include "yotta/device/unchanged/half_words.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void add_all(__half* sum, __nv_bfloat162* pair) {
  atomicAdd(sum, __half(2.0f));
  atomicAdd(pair, __floats2bfloat162_rn(1.0f, -1.0f));
}

__global__ void turn(__half2* x) {
  const __half2 mine = __floats2half2_rn(static_cast<float>(threadIdx.x), 1.0f);
  x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, mine, 1) + __shfl_sync(0xffffffffu, mine, 5);
}

}  // namespace

TEST_CASE("atomic additions of 16-bit floats lose none") {
  DeviceArray<__half> sum(std::vector<__half>{__half(0.0f)});
  DeviceArray<__nv_bfloat162> pair({__floats2bfloat162_rn(0.0f, 0.0f)});
  launch(add_all, 2, 64, 0, nullptr, sum.data(), pair.data());
  CHECK(float(sum.to_host()[0]) == 256.0f);
  CHECK(__low2float(pair.to_host()[0]) == 128.0f);
  CHECK(__high2float(pair.to_host()[0]) == -128.0f);
}

TEST_CASE("shuffles move pairs") {
  DeviceArray<__half2> x(32);
  launch(turn, 1, 32, 0, nullptr, x.data());
  for (int i = 0; i < 32; ++i) {
    CHECK(__low2float(x.to_host()[static_cast<size_t>(i)]) == static_cast<float>((i ^ 1) + 5));
    CHECK(__high2float(x.to_host()[static_cast<size_t>(i)]) == 2.0f);
  }
}
