// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_wgmma.hpp"

#include <doctest/doctest.h>

#include "device/hopper_cases.hpp"

using namespace yotta;

TEST_CASE("wgmma on tiles that threads have copied is a plain matmul" *
          doctest::skip(!hopper_is_here())) {
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_wgmma<128>(a, b, c, m, n, k);
  });
  check_hopper_sizes([](const bfloat16* a, const bfloat16* b, float* c, int m, int n, int k) {
    launch_wgmma<64>(a, b, c, m, n, k);
  });
}

TEST_CASE("rows that are not 16-byte aligned, and nothing to add up: threads copy those too" *
          doctest::skip(!hopper_is_here())) {
  for (const auto& [m, n, k] : {MatmulSize{17, 9, 33}, {65, 130, 7}, {16, 8, 0}}) {
    const Bf16Problem problem(m, n, k);
    check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
      launch_wgmma<64>(a, b, c, problem.m, problem.n, problem.k);
    }));
  }
}
