// Equal within a share of the number. doctest's Approx alone takes microseconds for equal: it adds
// 1 to what it takes the share of.
#pragma once

#include <doctest/doctest.h>

namespace yotta_test {

inline doctest::Approx near(double number) { return doctest::Approx(number).scale(0); }

}  // namespace yotta_test
