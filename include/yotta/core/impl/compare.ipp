// The bodies of core/compare.hpp.
#pragma once

#include "yotta/core/compare.hpp"

namespace yotta {

YOTTA_INLINE Verdict compare(std::span<const double> actual, std::span<const double> expected,
                             double tolerance, const Clues& clues) {
  if (actual.size() != expected.size())
    return {false, fmt::format("{} has {} elements, expected {}", clues.what, actual.size(),
                               expected.size())};
  const MismatchDiagnosis diagnosis(actual, expected, tolerance, clues);
  if (!diagnosis.found()) return {};
  return {false, fmt::format("{}: {}{}", clues.what, diagnosis.explain(), diagnosis.worst())};
}

YOTTA_INLINE Verdict compare(const Tensor& actual, const Tensor& expected, double tolerance,
                             Clues clues) {
  if (actual.shape() != expected.shape())
    return {false, fmt::format("{} is {}, expected {}", clues.what, actual.describe(),
                               expected.describe())};
  if (clues.shape.empty()) clues.shape = expected.shape();
  return compare(actual.values(), expected.values(), tolerance, clues);
}

}  // namespace yotta
