#include "loops.hpp"

namespace yotta {

void scale(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2;
}

float sum(const float* x, int64_t n) {
  float total = 0;
  for (int64_t i = 0; i < n; ++i) total += x[i];
  return total;
}

int64_t first_below(const float* x, int64_t n, float least) {
  int64_t i = 0;
  while (i < n && x[i] >= least) ++i;
  return i;
}

}  // namespace yotta
