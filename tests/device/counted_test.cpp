// nvcc compiles it too, where Counted<float> is float.
#include "yotta/device/counted.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"

using namespace yotta;

namespace {

template <class Real>
__global__ void axpy(Real a, const Real* x, Real* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = a * x[i] + y[i];
}

template <class Real>
__global__ void several(const Real* x, Real* y) {
  Real sum = 0.0f;
  for (int i = 0; i < 5; ++i) sum += x[i];
  sum = fma(sum, x[0], x[1]);
  sum /= x[2] - x[0];
  *y = sum > Real(1.0f) ? -sum : sum;
}

}  // namespace

TEST_CASE("a kernel on counted numbers computes the same and counts its FLOPs") {
  const std::vector<float> ones(128, 1.0f);
  DeviceArray<float> x(ones), y(ones);
  launch(axpy<float>, 2, 64, 0, nullptr, 3.0f, x.data(), y.data());
  DeviceArray<Counted<float>> counted_x(std::vector<Counted<float>>(128, 1.0f));
  DeviceArray<Counted<float>> counted_y(std::vector<Counted<float>>(128, 1.0f));
  Profile profile;
  launch(axpy<Counted<float>>, 2, 64, 0, nullptr, Counted<float>(3.0f), counted_x.data(),
         counted_y.data());
  CHECK(static_cast<float>(counted_y.to_host()[127]) == y.to_host()[127]);
#if !defined(__CUDACC__)
  CHECK(profile.flops() == 2 * 128);
  CHECK(profile.global_reads().sectors_per_request() == 4);
  for (const LineCounts& line : profile.lines()) CHECK(line.file == "counted_test.cpp");
#endif
}

TEST_CASE("sums, differences, quotients and fused multiply-adds") {
  DeviceArray<Counted<float>> x(std::vector<Counted<float>>{1.0f, 2.0f, 3.0f, 4.0f, 5.0f}), y(1);
  Profile profile;
  launch(several<Counted<float>>, 1, 1, 0, nullptr, x.data(), y.data());
  CHECK(static_cast<float>(y.to_host()[0]) == -8.5f);
#if !defined(__CUDACC__)
  CHECK(profile.flops() == 5 + 2 + 1 + 1);
#endif
}
