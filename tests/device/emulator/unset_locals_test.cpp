#include "yotta/device/emulator/unset_locals.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

template <class T, bool Set>
__global__ void sums_rows(const T* x, T* y) {
  T sums[2][2];
  if (Set)
    for (auto& row : sums) row[0] = row[1] = 0;
  for (int i = 0; i < 4; ++i) sums[i / 2][i % 2] += x[4 * threadIdx.x + static_cast<unsigned>(i)];
  for (int i = 0; i < 4; ++i)
    y[4 * threadIdx.x + static_cast<unsigned>(i)] = sums[i / 2][i % 2];  // line: stores
}

template <bool Set>
std::string error_of_sums() {
  const DeviceArray<float> x(std::vector<float>(128, 1.0f));
  DeviceArray<float> y(128);
  y.named("y");
  launch(sums_rows<float, Set>, 1, 32, 0, nullptr, x.data(), y.data());
  return error_of([&] { y.to_host(); });
}

__global__ void copies(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

}  // namespace

TEST_CASE("a local that a kernel forgot to set is named when the result is looked at") {
  CHECK(error_of_sums<true>() == "no error");
  check_says(error_of_sums<false>(), {line_at("stores"), "y, bytes 0 to 3 of 512", "has not set"});
}

TEST_CASE("memory that no kernel wrote is not blamed on one") {
  const DeviceArray<float> fresh(8);
  CHECK(std::isnan(fresh.to_host()[0]));
}

TEST_CASE("a NaN of the host that a kernel copies is not blamed on a local") {
  std::vector<float> values(32, 1.0f);
  values[5] = std::bit_cast<float>(0xffffffffu);
  const DeviceArray<float> x(values);
  DeviceArray<float> y(32);
  launch(copies, 1, 32, 0, nullptr, x.data(), y.data());
  CHECK(error_of([&] { CHECK(std::isnan(y.to_host()[5])); }) == "no error");
}
