// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_hopper.hpp"

#include <doctest/doctest.h>

#include "support/bf16_matmul.hpp"
#include "support/hopper_here.hpp"

using namespace yotta;

TEST_CASE("a ring of tiles, filled by TMA and emptied by wgmma, is a plain matmul" *
          doctest::skip(!hopper_is_here())) {
  for (const auto& [m, n, k] :
       {MatmulSize{64, 128, 64}, {128, 128, 320}, {70, 72, 40}, {33, 200, 136}}) {
    const Bf16Problem problem(m, n, k);
    check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
      launch_wgmma<128, 3>(a, b, c, problem.m, problem.n, problem.k);
    }));
    check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
      launch_wgmma<64, 2>(a, b, c, problem.m, problem.n, problem.k);
    }));
  }
}
