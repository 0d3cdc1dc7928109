// What the tests of matmul kernels share: matrices of small whole numbers, whose products are exact
// in any order, and the sizes that every kernel must get right.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "yotta/core/matmul_ladder.hpp"
#include "yotta/device/device_memory.hpp"

namespace yotta_test {

struct MatmulSize {
  int m, n, k;
};

// One number; sizes that divide by no tile; edges of single rows and columns; whole tiles.
inline constexpr std::array<MatmulSize, 6> matmul_sizes = {
    {{1, 1, 1}, {33, 7, 9}, {65, 130, 37}, {1, 129, 8}, {131, 1, 20}, {128, 128, 16}}};

inline std::vector<float> whole_numbers(int64_t count, int different) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * i + i) % different - different / 2);
  return x;
}

// kernel(a, b, c, m, n, k) launches on device memory; its C is compared with the serial one.
template <class Kernel>
void check_matmul(const char* name, MatmulSize size, Kernel kernel) {
  const auto [m, n, k] = size;
  CAPTURE(name);
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  const std::vector<float> a = whole_numbers(m * k, 7), b = whole_numbers(k * n, 5);
  std::vector<float> expected(static_cast<size_t>(m * n));
  yotta::matmul_naive(yotta::row_major(a.data(), m, k), yotta::row_major(b.data(), k, n),
                      yotta::row_major(expected.data(), m, n), yotta::Into::overwrite);
  const yotta::DeviceArray<float> on_device_a(a), on_device_b(b);
  yotta::DeviceArray<float> c(expected.size());
  kernel(on_device_a.data(), on_device_b.data(), c.data(), m, n, k);
  CHECK(c.to_host() == expected);
}

template <class Kernel>
void check_matmul(const char* name, Kernel kernel) {
  for (const MatmulSize& size : matmul_sizes) check_matmul(name, size, kernel);
}

}  // namespace yotta_test
