// Faults that a lane cannot survive are errors of its launch; the next launch is none the worse.
#include "yotta/device/emulator/lane_faults.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "support/kernel_error.hpp"
#include "support/not_run.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

__global__ void divides(const int* x, int* y) { y[threadIdx.x] = 7 / x[threadIdx.x]; }

__global__ void has_large_locals(int* y) {
  volatile int local[20000];
  for (int i = 0; i < 20000; ++i) local[i] = i;
  y[threadIdx.x] = local[threadIdx.x];
}

__device__ int sum_to(volatile int* n) {
  const int now = *n;
  if (now == 0) return 0;
  *n = now - 1;
  return now + sum_to(n);
}
__global__ void recurses(int* y) {
  volatile int n = 1 << 20;
  y[threadIdx.x] = sum_to(&n);
}

__global__ void reads_nowhere(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }

__global__ void aborts(int* y) {
  if (y[threadIdx.x] != 1) std::abort();
}

template <class... Arguments, class... Given>
std::string error(void (*kernel)(Arguments...), Given... given) {
  return error_of([&] { launch(kernel, 2, 32, 0, nullptr, given...); });
}

}  // namespace

TEST_CASE(
    "a division by zero, a stack that ends, a pointer to nowhere and abort() name their thread") {
  if (YOTTA_ASAN || YOTTA_TSAN) YOTTA_NOT_RUN("a sanitizer says it in its own words");
  std::vector<int> ones(32, 1), one_zero = ones;
  one_zero[9] = 0;
  DeviceArray<int> x(one_zero), y(ones);
  x.named("x");
  for (int twice = 0; twice < 2; ++twice) {
    check_says(
        error(divides, x.data(), y.data()),
        {"kernel ", "divides", "block (0, 0, 0), thread (9, 0, 0)", "divides an integer by zero"});
    check_says(error(has_large_locals, y.data()),
               {"has_large_locals", "needs more than the 64 KiB"});
    check_says(error(recurses, y.data()),
               {"recurses", "needs more than the 64 KiB", "recurse less"});
    check_says(error(reads_nowhere, static_cast<const int*>(nullptr), y.data()), {"null pointer"});
    check_says(error(reads_nowhere, static_cast<const int*>(x.data() + 2000), y.data()),
               {"bytes behind the end of x, which has 128"});
    DeviceArray<int> zeros(std::vector<int>(32, 0));
    check_says(error(aborts, zeros.data()), {"aborts", "std::abort"});
    x.copy_from(ones);
    CHECK(error(divides, x.data(), y.data()) == "no error");
    CHECK(y.to_host()[3] == 7);
    x.copy_from(one_zero);
  }
}
