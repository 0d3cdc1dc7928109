// Three loops, of which a compiler vectorises one (loops_measured.cpp).
#pragma once

#include <cstdint>

namespace yotta {

void scale(const float* x, float* y, int64_t n);
float sum(const float* x, int64_t n);
int64_t first_below(const float* x, int64_t n, float least);

}  // namespace yotta
