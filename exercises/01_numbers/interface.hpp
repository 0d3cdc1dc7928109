// What the graded cases of exercise 01 call. adapter.cpp fills it with the functions of one solution.
#pragma once

#include "yotta/core/exercise.hpp"
#include "yotta/core/numbers.hpp"

namespace exercise {

// The formats are plain values, so the cases speak of the library's, and the adapter translates.
struct Solution {
  double (*spacing)(double x, yotta::NumberFormat f);
  double (*round_to)(double x, yotta::NumberFormat f);
  double (*round_stochastically)(double x, yotta::NumberFormat f, double u);
  double (*dot_product)(std::span<const double> x, std::span<const double> y,
                        yotta::NumberFormat in, yotta::NumberFormat sums);
  double (*ones_stop_at)(yotta::NumberFormat f);
};
extern const Solution solution;

}  // namespace exercise
