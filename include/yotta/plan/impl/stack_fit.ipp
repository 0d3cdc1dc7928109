// The bodies of plan/stack_fit.hpp.
#pragma once

#include "yotta/plan/stack_fit.hpp"

#include <algorithm>
#include <cmath>

namespace yotta {

namespace detail {

struct FittedNumber {
  double Stack::*number;
  double least, most;
};
inline constexpr std::array<FittedNumber, 5> fitted_numbers = {{{&Stack::matmul, 0.3, 1.25},
                                                                {&Stack::attention, 0.1, 2},
                                                                {&Stack::passes, 1, 4},
                                                                {&Stack::interference, 0.05, 1},
                                                                {&Stack::network, 0.05, 1}}};

inline constexpr double first_factor = 1.3;

class StackFitter {
 public:
  StackFitter(const std::vector<MeasuredRow>& rows, const Stack& from) : rows_(rows), from_(from) {}

  // Moves one number after the other, by smaller and smaller factors. `left_out`: rows i of which
  // i % folds is that.
  Stack fit(Stack stack, double factor, size_t folds = 1, size_t left_out = 1) {
    double least = loss(stack, folds, left_out);
    while (factor > 1.003) {
      bool moved = false;
      for (const FittedNumber& each : fitted_numbers)
        for (const double by : {factor, 1 / factor}) {
          Stack next = stack;
          next.*each.number = std::clamp(stack.*each.number * by, each.least, each.most);
          const double here = loss(next, folds, left_out);
          if (!(here < least)) continue;
          stack = next, least = here, moved = true;
        }
      if (!moved) factor = std::sqrt(factor);
    }
    return stack;
  }
  double error(const Stack& stack, size_t i) {
    return std::abs(estimate_row(rows_[i], stack, cache_).seconds / rows_[i].seconds - 1);
  }
  double mean_error(const Stack& stack) {
    double sum = 0;
    for (size_t i = 0; i < rows_.size(); ++i) sum += error(stack, i);
    return sum / static_cast<double>(rows_.size());
  }

 private:
  static constexpr double price = 2e-3;

  double loss(const Stack& stack, size_t folds, size_t left_out) {
    double sum = 0, count = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (i % folds == left_out) continue;
      const double seconds = estimate_row(rows_[i], stack, cache_).seconds;
      sum += std::pow(std::log(seconds / rows_[i].seconds), 2), ++count;
    }
    sum /= count;
    for (const FittedNumber& each : fitted_numbers)
      sum += price * std::pow(std::log(stack.*each.number / (from_.*each.number)), 2);
    return sum;
  }

  const std::vector<MeasuredRow>& rows_;
  Stack from_;
  EstimateCache cache_;
};

}  // namespace detail

YOTTA_INLINE Stack fitted_stack(const std::vector<MeasuredRow>& rows, const Stack& from,
                                Where where) {
  if (rows.empty()) fail(where, "no row to fit a stack to: give one or more");
  return detail::StackFitter(rows, from).fit(from, detail::first_factor);
}

YOTTA_INLINE StackFit fit_stack(const std::vector<MeasuredRow>& rows, const Stack& from,
                                Where where) {
  if (rows.size() < 2) fail(where, "{} row to fit a stack to: give two or more", rows.size());
  detail::StackFitter fitter(rows, from);
  StackFit found;
  found.before = fitter.mean_error(from);
  found.stack = fitter.fit(from, detail::first_factor);
  found.after = fitter.mean_error(found.stack);
  const size_t folds = std::min<size_t>(10, rows.size());
  for (size_t fold = 0; fold < folds; ++fold) {
    const Stack others = fitter.fit(found.stack, 1.1, folds, fold);
    for (size_t i = fold; i < rows.size(); i += folds) {
      const double error = fitter.error(others, i);
      found.left_out += error / static_cast<double>(rows.size());
      found.worst_left_out = std::max(found.worst_left_out, error);
    }
  }
  return found;
}

}  // namespace yotta
