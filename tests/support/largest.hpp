// The largest difference of two lists of numbers: of losses, of all gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace yotta_test {

// Infinite if one is longer, or a number is none.
inline double largest(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double error = std::abs(a[i] - b[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace yotta_test
