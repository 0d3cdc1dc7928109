// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_persistent.hpp"

#include <doctest/doctest.h>

#include "device/hopper_cases.hpp"

using namespace yotta;

TEST_CASE("persistent blocks: one for all tiles, a few, and more than there are tiles" *
          doctest::skip(!hopper_is_here())) {
  for (const int blocks : {1, 3, 40})
    check_hopper_sizes([=](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
      launch_persistent<64, 3, 1>(a, b, c, m, n, k, blocks);
    });
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_persistent<128, 2, 2>(a, b, c, m, n, k, 2);
  });
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_persistent<64, 1, 2>(a, b, c, m, n, k, 2);
  });
}

TEST_CASE("a store that nothing hides takes 7% of the time on an H100, for k = 8192") {
  CHECK(exposed_store(989 / 3.35, 8192) == doctest::Approx(0.0721).epsilon(0.001));
}
