#include "yotta/device/unchanged/device_math.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>

TEST_CASE("functions that the C library does not have") {
  CHECK(rsqrtf(4.0f) == 0.5f);
  CHECK(rsqrt(0.25) == 2.0);
  CHECK(rcbrtf(8.0f) == doctest::Approx(0.5f));
  CHECK(sinpi(0.5) == doctest::Approx(1));
  CHECK(std::abs(sinpi(1e6 + 1)) < 1e-9);
  CHECK(cospif(3.0f) == doctest::Approx(-1.0f));
  CHECK(normcdf(0) == 0.5);
  CHECK(normcdf(1.96) == doctest::Approx(0.9750021));
  CHECK(norm3df(2, 3, 6) == doctest::Approx(7.0f));
  CHECK(__saturatef(1.5f) == 1.0f);
  CHECK(__saturatef(-1.5f) == 0.0f);
  CHECK(__saturatef(NAN) == 0.0f);
  CHECK(__expf(1.0f) == doctest::Approx(2.7182818f));
  CHECK(__exp10f(2.0f) == doctest::Approx(100.0f));
  CHECK(__powf(2.0f, 10.0f) == doctest::Approx(1024.0f));
  float sine = 0, cosine = 0;
  __sincosf(1.0f, &sine, &cosine);
  CHECK(sine == doctest::Approx(0.84147098f));
  CHECK(cosine == doctest::Approx(0.54030231f));
}

TEST_CASE("a product that is rounded before the sum differs from a fused one") {
  const float x = 1.0f + 0x1p-12f;  // x x = 1 + 2^-11 + 2^-24, which ends between two floats
  CHECK(__fadd_rn(__fmul_rn(x, x), -1.0f) == 0x1p-11f);
  CHECK(__fmaf_rn(x, x, -1.0f) == 0x1p-11f + 0x1p-24f);
}

// Of a number that the compiler does not know.
template <class Real>
void check_apart(Real step) {
  const volatile Real unknown = 1 + step;
  const Real x = unknown, twice = 2 * step, square = twice + step * step;
  if constexpr (sizeof(Real) == 4) {
    CHECK(__fadd_rn(x * x, Real(-1)) == twice);
    CHECK(__fsub_rn(x * x, Real(1)) == twice);
    CHECK(__fsub_rn(Real(1), x * x) == -twice);
    CHECK(__fmaf_rn(x, x, Real(-1)) == square);
  } else {
    CHECK(__dadd_rn(x * x, Real(-1)) == twice);
    CHECK(__dsub_rn(x * x, Real(1)) == twice);
    CHECK(__dsub_rn(Real(1), x * x) == -twice);
    CHECK(__fma_rn(x, x, Real(-1)) == square);
  }
}

TEST_CASE("a sum is not fused with a product that goes into it") {
  check_apart(0x1p-12f);
  check_apart(0x1p-27);
}

TEST_CASE("min and max are of every pair of types, and leave NaN out") {
  static_assert(std::is_same_v<decltype(max(1, 2.5f)), float>);
  static_assert(std::is_same_v<decltype(min(1u, 2)), unsigned>);
  CHECK(min(3, 2) == 2);
  CHECK(max(3ll, 2) == 3);
  CHECK(max(-1.0f, 0) == 0.0f);
  CHECK(max(NAN, 2.0f) == 2.0f);
  CHECK(min(2.0, double{NAN}) == 2.0);
}
