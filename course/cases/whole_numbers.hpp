// Input for matmuls whose result is exact: small whole numbers.
#pragma once

#include <cstddef>
#include <vector>

namespace yotta {

// `different` values around 0, one after the other: their sums are exact in any order.
inline std::vector<float> whole_numbers(int count, int different) {
  std::vector<float> x(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(i % different - different / 2);
  return x;
}

}  // namespace yotta
