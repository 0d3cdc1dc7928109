// nvcc compiles this file too.
#include "yotta/device/fp8.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void round_trip(const float* x, float* e4m3, float* e5m2) {
  e4m3[threadIdx.x] = static_cast<float>(__nv_fp8_e4m3(x[threadIdx.x]));
  e5m2[threadIdx.x] = static_cast<float>(__nv_fp8_e5m2(x[threadIdx.x]));
}

}  // namespace

TEST_CASE("what is too large becomes the largest, of either sign") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1.3f, 448.0f,    449.0f,   -500.0f,
                                     1e9f, -infinity, 57344.0f, -0.5f};
  const DeviceArray<float> x(values);
  DeviceArray<float> e4m3(8), e5m2(8);
  launch(round_trip, 1, 8, 0, nullptr, x.data(), e4m3.data(), e5m2.data());
  CHECK(e4m3.to_host() ==
        std::vector<float>{1.25f, 448.0f, 448.0f, -448.0f, 448.0f, -448.0f, 448.0f, -0.5f});
  CHECK(e5m2.to_host() ==
        std::vector<float>{1.25f, 448.0f, 448.0f, -512.0f, 57344.0f, -57344.0f, 57344.0f, -0.5f});
}

TEST_CASE("without saturation, what is too large is no number; NaN stays NaN") {
  const auto bits = [](float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return static_cast<int>(__nv_cvt_float_to_fp8(x, saturate, kind));
  };
  CHECK(bits(500.0f, __NV_NOSAT, __NV_E4M3) == 0x7f);
  CHECK(bits(1e6f, __NV_NOSAT, __NV_E5M2) == 0x7c);
  CHECK(bits(500.0f, __NV_SATFINITE, __NV_E4M3) == 0x7e);
  CHECK(bits(1e6f, __NV_SATFINITE, __NV_E5M2) == 0x7b);
  CHECK(std::isnan(static_cast<float>(__nv_fp8_e4m3(std::nanf("")))));
  CHECK(std::isnan(static_cast<float>(__nv_fp8_e5m2(std::nanf("")))));
}
