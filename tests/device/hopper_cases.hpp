// What the tests of Hopper's matmul kernels share: the sizes that every kernel must get right.
#pragma once

#include "support/bf16_matmul.hpp"
#include "support/hopper_here.hpp"

namespace yotta {

// Whole tiles, sizes that no tile divides, less than a tile.
inline constexpr MatmulSize hopper_sizes[] = {{64, 128, 64},  {128, 128, 320}, {70, 72, 40},
                                              {33, 200, 136}, {200, 264, 136}, {1, 8, 8}};

// kernel(a, b, c, m, n, k) launches on device memory.
template <class Kernel>
void check_hopper_sizes(Kernel kernel) {
  for (const auto& [m, n, k] : hopper_sizes) {
    const Bf16Problem problem(m, n, k);
    check_product(problem, problem.run([&](const bfloat16* a, const bfloat16* b, float* c) {
      kernel(a, b, c, problem.m, problem.n, problem.k);
    }));
  }
}

}  // namespace yotta
