// What the graded cases of exercise 03 call. adapter.cpp fills it with one solution.
#pragma once

#include <array>

#include "course/cases/launch_matmul.hpp"
#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/device/kernel.hpp"

namespace exercise {

// What `copy` leaves unwritten of a tile keeps this number.
inline constexpr float untouched = -1000;

struct Solution {
  // 128 threads copy tiles of (32, 32): of a (m - 3, k), into c (m, n) with its zeros.
  yotta::MatmulKernel copy;
  // Tiles of (32, 32) and 8 of k a block: 8 x 1 sums per thread, 128 threads; 8 x 4, 32 threads.
  yotta::MatmulKernel column, tile;
  // {global, shared}; sizes: BM, BN, BK, TM, TN
  Call<std::array<double, 2>(int64_t m, int64_t n, int64_t k, const std::array<int, 5>& sizes)>
      bytes_loaded;
  Call<int64_t(int64_t m, int64_t n, int64_t k, const std::array<int, 5>& sizes)> bytes_written;
};
extern const Solution solution;

}  // namespace exercise
