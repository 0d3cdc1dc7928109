// What the graded cases of exercise 01 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <array>

#include "yotta/core/exercise.hpp"
#include "yotta/core/numbers.hpp"

namespace exercise {

// The formats are plain values, so the cases speak of the library's, and the adapter translates.
struct Solution {
  double (*spacing)(double x, yotta::NumberFormat f);
  double (*round_to)(double x, yotta::NumberFormat f);
  double (*round_stochastically)(double x, yotta::NumberFormat f, double u);
  uint32_t (*code_of)(double x, yotta::NumberFormat f);
  double (*value_of)(uint32_t code, yotta::NumberFormat f);
  // {sum, what is missing}
  std::array<double, 2> (*sum_compensated)(std::span<const double> terms, yotta::NumberFormat f);
  double (*dot_product)(std::span<const double> x, std::span<const double> y,
                        yotta::NumberFormat in, yotta::NumberFormat sums);
};
extern const Solution solution;

}  // namespace exercise
