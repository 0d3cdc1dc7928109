// Rounding: a sum of ones stops growing where numbers are 2 apart: a tie goes to the even one.
// With the 7 mantissa bits of bf16 that is at 256. So factors are 16 bits wide, and sums 32.
#include <fmt/format.h>

#include <vector>

#include "yotta/core/numbers.hpp"

using namespace yotta;

int main() {
  const std::vector<double> ones(1000, 1.0);
  const double in_bf16 = sum_in_order(ones, formats::bf16).value;
  const double in_fp32 = sum_in_order(ones, formats::fp32).value;
  fmt::print("1000 ones add up to {} in bf16, and to {} in fp32\n", in_bf16, in_fp32);
  if (!(in_bf16 == 256) || !(in_fp32 == 1000)) {
    fmt::print("256 in bf16 and 1000 in fp32 are right\n");
    return 1;
  }
}
