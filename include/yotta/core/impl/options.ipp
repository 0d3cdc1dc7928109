// The bodies of core/options.hpp.
#pragma once

#include "yotta/core/options.hpp"

#include <cmath>

namespace yotta {

YOTTA_INLINE std::string describe(const NumberRange& range) {
  const bool ends = range.most < std::numeric_limits<double>::infinity();
  if (range.with_least && range.with_most && ends)
    return fmt::format("a number from {} to {}", range.least, range.most);
  std::string text = range.with_least ? fmt::format("{} or more", range.least)
                                      : fmt::format("above {}", range.least);
  if (ends)
    return text + fmt::format(" and {} {}", range.with_most ? "at most" : "below", range.most);
  return range.with_most ? text + ", or infinite" : text;
}

YOTTA_INLINE void check_number(Where where, const char* what, double value,
                               const NumberRange& range, const std::string& advice) {
  if (range.holds(value)) return;
  const bool finite = std::isfinite(value) || range.with_most;
  fail(where, "{} is {}, expected {}{}{}", what, value, finite ? "" : "a finite number, ",
       describe(range), advice);
}

}  // namespace yotta
