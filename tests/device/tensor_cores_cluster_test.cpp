// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_cluster.hpp"

#include <doctest/doctest.h>

#include "device/hopper_cases.hpp"

using namespace yotta;

TEST_CASE("two blocks that bring B for each other are a plain matmul" *
          doctest::skip(!hopper_is_here())) {
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_multicast<128, 3, 1>(a, b, c, m, n, k);
  });
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_multicast<64, 1, 2>(a, b, c, m, n, k);
  });
}
