// Problems for the tensor-core kernels' tests: bf16 matrices, their exact product, and a verdict.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "yotta/core/dtype.hpp"
#include "yotta/core/random.hpp"
#include "yotta/device/device_memory.hpp"

namespace yotta {

struct MatmulSize {
  int m, n, k;
};
// Whole tiles, edges in each direction, less than a tile, rows that are not 16-byte aligned,
// nothing.
inline constexpr MatmulSize matmul_sizes[] = {
    {16, 8, 16}, {64, 64, 64}, {128, 64, 96}, {65, 64, 32}, {64, 72, 32}, {64, 64, 40},
    {17, 9, 33}, {1, 1, 1},    {100, 70, 50}, {5, 130, 7},  {16, 8, 0}};

struct Bf16Problem {
  int m, n, k;
  std::vector<bfloat16> a, b;  // (m, k), (k, n)

  // Normal numbers times `scale`; the same each time.
  Bf16Problem(int m_, int n_, int k_, float scale = 1)
      : m(m_), n(n_), k(k_), a(count(m, k)), b(count(k, n)) {
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = bfloat16(scale * static_cast<float>(Random(4, "a").normal(i)));
    for (size_t i = 0; i < b.size(); ++i)
      b[i] = bfloat16(scale * static_cast<float>(Random(4, "b").normal(i)));
  }

  // C of run(a, b, c), which gets device pointers. C holds NaN before.
  template <class Run>
  std::vector<float> run(Run run) const {
    const DeviceArray<bfloat16> device_a(a), device_b(b);
    DeviceArray<float> c(count(m, n));
    run(device_a.data(), device_b.data(), c.data());
    return c.to_host();
  }

  double element(int row, int column) const {
    double sum = 0;
    for (int l = 0; l < k; ++l)
      sum += static_cast<double>(a[count(row, k) + static_cast<size_t>(l)]) *
             static_cast<double>(b[count(l, n) + static_cast<size_t>(column)]);
    return sum;
  }
  static size_t count(int rows, int columns) {
    return static_cast<size_t>(rows) * static_cast<size_t>(columns);
  }
};

inline void check_product(const Bf16Problem& problem, const std::vector<float>& c) {
  CAPTURE(problem.m);
  CAPTURE(problem.n);
  CAPTURE(problem.k);
  int wrong = 0;
  for (int row = 0; row < problem.m; ++row)
    for (int column = 0; column < problem.n; ++column) {
      const double got = c[Bf16Problem::count(row, problem.n) + static_cast<size_t>(column)];
      const double error = std::abs(got - problem.element(row, column));
      wrong += !(error <= 1e-6 * (10 + problem.k));
    }
  CHECK(wrong == 0);
}

}  // namespace yotta
