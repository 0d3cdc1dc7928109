// What the graded cases of exercise 41 call. adapter.cpp fills it with one solution.
#pragma once

#include <vector>

#include "course/cases/launch_matmul.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/device/atomics.hpp"
#include "yotta/device/kernel.hpp"
#include "yotta/device/tensor_cores_tma.hpp"

namespace exercise {

using Bits = std::vector<uint16_t>;  // of row-major bf16 matrices

struct Sizes {
  int m, n, k;
};

struct Solution {
  yotta::MatmulKernel by_halves, by_pieces;  // 64 threads per block
  yotta::MatmulKernel transpose;             // 32 x 8 threads; b and k are not used
  // The tiles that the producer brings for (row, column) of C, step after step: 64 x 64 of A, then
  // 64 x 64 of B, as they lie in the matrices; a ring of one place or of three.
  Bits (*produced)(const Bits& a, const Bits& b, Sizes sizes, int row, int column, int places);
  // C (m, n) of up to 128 x 64, by two groups of consumers; a ring of one place or of three.
  std::vector<float> (*consumed)(const Bits& a, const Bits& b, Sizes sizes, int places);
};
extern const Solution solution;

}  // namespace exercise
