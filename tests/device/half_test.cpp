// nvcc compiles this file too.
#include "yotta/device/half.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void round_trip(const float* x, float* as_half, float* as_bf16) {
  const unsigned i = threadIdx.x;
  as_half[i] = __half2float(__float2half(x[i]));
  as_bf16[i] = __bfloat162float(__float2bfloat16(x[i]));
}

__global__ void scale_pairs(__half2* x, __nv_bfloat162* y) {
  const float2 a = __half22float2(x[threadIdx.x]);
  x[threadIdx.x] = __floats2half2_rn(2.0f * a.x, 2.0f * a.y);
  const float2 b = __bfloat1622float2(y[threadIdx.x]);
  y[threadIdx.x] = __floats2bfloat162_rn(b.x + 1.0f, b.y + 1.0f);
}

__global__ void through_shared(__half* x) {
  __shared__ __align__(16) __half part[64];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = part[63 - threadIdx.x];
}

}  // namespace

TEST_CASE("floats are rounded to 11 and to 8 bits, ties to even") {
  const DeviceArray<float> x(
      std::vector<float>{1.0f, 2049.0f, 2051.0f, 257.0f, 259.0f, 65504.0f, 1e-8f});
  DeviceArray<float> as_half(7), as_bf16(7);
  launch(round_trip, 1, 7, 0, nullptr, x.data(), as_half.data(), as_bf16.data());
  CHECK(as_half.to_host() ==
        std::vector<float>{1.0f, 2048.0f, 2052.0f, 257.0f, 259.0f, 65504.0f, 0.0f});
  const auto bf16 = as_bf16.to_host();
  CHECK(bf16[1] == 2048.0f);
  CHECK(bf16[3] == 256.0f);
  CHECK(bf16[4] == 260.0f);
  CHECK(bf16[5] == 65536.0f);
}

TEST_CASE("pairs and shared arrays of 16-bit floats") {
  DeviceArray<__half2> x(std::vector<__half2>(32, __floats2half2_rn(1.5f, -3.0f)));
  DeviceArray<__nv_bfloat162> y(std::vector<__nv_bfloat162>(32, __floats2bfloat162_rn(1.0f, 2.0f)));
  launch(scale_pairs, 1, 32, 0, nullptr, x.data(), y.data());
  CHECK(__half22float2(x.to_host()[31]).y == -6.0f);
  CHECK(__bfloat1622float2(y.to_host()[0]).x == 2.0f);
  std::vector<__half> values(64);
  for (size_t i = 0; i < 64; ++i) values[i] = __half(static_cast<float>(i));
  DeviceArray<__half> z(values);
  launch(through_shared, 1, 64, 0, nullptr, z.data());
  CHECK(static_cast<float>(z.to_host()[0]) == 63.0f);
}
