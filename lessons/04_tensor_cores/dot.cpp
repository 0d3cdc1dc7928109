// Two dot products to be read as assembly; hardware_lottery.md shows the command. The suite counts
// their instructions (tests/core/dot_assembly.cmake).
#include "yotta/core/dot_chains.hpp"

extern "C" float in_order(const float* x, const float* y, int64_t n) {
  return yotta::dot_in_order(x, y, n);
}

extern "C" float in_chains(const float* x, const float* y, int64_t n) {
  return yotta::dot_in_chains<4>(x, y, n);
}
