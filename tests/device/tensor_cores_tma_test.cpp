// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_tma.hpp"

#include <doctest/doctest.h>

#include "device/hopper_cases.hpp"

using namespace yotta;

TEST_CASE("tiles that TMA copies into a ring, from one place to four, are a plain matmul" *
          doctest::skip(!hopper_is_here())) {
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_tma<128, 3>(a, b, c, m, n, k);
  });
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_tma<64, 1>(a, b, c, m, n, k);
  });
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_tma<64, 4>(a, b, c, m, n, k);
  });
}
