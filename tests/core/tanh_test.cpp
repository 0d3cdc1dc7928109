#include "yotta/core/tanh.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace yotta;

namespace {

template <class Real>
void check_tanh() {
  const Real tolerance = 3 * std::numeric_limits<Real>::epsilon();
  for (double x = 1e-12; x < 100; x *= 1.01)
    for (const Real each : {static_cast<Real>(x), static_cast<Real>(-x)}) {
      const Real expected = std::tanh(each);
      if (!(std::abs(tanh_of(each) - expected) <= tolerance * std::abs(expected)))
        CHECK(tanh_of(each) == expected);
    }
  CHECK(tanh_of(Real{0}) == 0);
  CHECK(std::signbit(tanh_of(-Real{0})));
  CHECK(tanh_of(std::numeric_limits<Real>::infinity()) == 1);
  CHECK(tanh_of(-std::numeric_limits<Real>::infinity()) == -1);
  CHECK(std::isnan(tanh_of(std::numeric_limits<Real>::quiet_NaN())));
}

}  // namespace

TEST_CASE("tanh is right to the last digits, from the smallest to the largest") {
  check_tanh<float>();
  check_tanh<double>();
}
