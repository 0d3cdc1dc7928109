// What the graded cases of exercise 01 call. adapter.cpp fills it with the functions of one
// solution.
#pragma once

#include <array>

#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/core/numbers.hpp"

namespace exercise {

// The formats are plain values, so the cases speak of the library's, and the adapter translates.
struct Solution {
  Call<double(double x, yotta::NumberFormat f)> spacing;
  Call<double(double x, yotta::NumberFormat f)> round_to;
  Call<double(double x, yotta::NumberFormat f, double u)> round_stochastically;
  Call<uint32_t(double x, yotta::NumberFormat f)> code_of;
  Call<double(uint32_t code, yotta::NumberFormat f)> value_of;
  // {sum, what is missing}
  Call<std::array<double, 2>(std::span<const double> terms, yotta::NumberFormat f)> sum_compensated;
  Call<double(std::span<const double> x, std::span<const double> y, yotta::NumberFormat in,
              yotta::NumberFormat sums)>
      dot_product;
};
extern const Solution solution;

}  // namespace exercise
