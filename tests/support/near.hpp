// Equal within a share of the number. doctest's Approx alone takes microseconds for equal: it adds
// 1 to what it takes the share of.
#pragma once

#include <doctest/doctest.h>

#include <cmath>

namespace yotta_test {

inline doctest::Approx near(double number) { return doctest::Approx(number).scale(0); }

// Virtual times: the clock and a formula differ by rounding alone.
inline void check_seconds(double actual, double expected) {
  CAPTURE(actual);
  CAPTURE(expected);
  CHECK(std::abs(actual - expected) <= 1e-12 * expected);
}

}  // namespace yotta_test
