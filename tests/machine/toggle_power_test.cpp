#include "yotta/machine/toggle_power.hpp"

#include <doctest/doctest.h>

#include "support/near.hpp"

using namespace yotta;
using yotta_test::near;

TEST_CASE("bits that toggle, by hand") {
  CHECK(toggled(1.0f, 1.0f) == 0);
  CHECK(toggled(1.0f, -1.0f) == 1);  // the sign
  CHECK(toggled(0.0f, 1.0f) == 7);   // exponent 01111111
  CHECK(toggled(1.0f, 1.5f) == 1);   // the first bit of the mantissa
  // (1, -1) times (1, 1): a 7 + 1, b 7 + 0, products 7 + 1, sums 7 (0 to 1) + 7 (1 to 0).
  const std::vector<bfloat16> a = {bfloat16(1.0f), bfloat16(-1.0f)};
  const std::vector<bfloat16> b = {bfloat16(1.0f), bfloat16(1.0f)};
  const Toggles toggles = count_toggles(a, b, 1, 1, 2);
  CHECK(toggles.operands == 15 / 2.0);
  CHECK(toggles.products == 8 / 2.0);
  CHECK(toggles.sums == 14 / 2.0);
  // Each element of C counts its own row of A and column of B.
  const Toggles square = count_toggles(a, b, 2, 2, 1);  // A = (1; -1), B = (1, 1)
  CHECK(square.operands == (7 + 7 + 8 + 7 + 7 + 7 + 8 + 7) / 4.0);
  CHECK(square.products == (7 + 7 + 8 + 8) / 4.0);
}

TEST_CASE("the model: watts by toggles, and the clock that keeps the limit") {
  const PowerModel model;
  const double normal = model.demand(30.5);
  CHECK(model.demand(0) == 336);
  CHECK(model.watts(0) == 336);
  CHECK(model.watts(30.5) == 400);
  CHECK(model.clock(0) == 1);
  // At the clock that it takes, the chip draws its limit.
  const double clock = model.clock(30.5);
  CHECK(model.idle + std::pow(clock, 3) * (normal - model.idle) == near(400));
}

TEST_CASE("the fit: He's 257 TFLOP/s for the toggles that normal numbers have here") {
  const double fitted = PowerModel{}.flops(toggles_of(DataKind::normal, 64).all());
  CHECK(std::abs(fitted - 257e12) < 0.5e12);
}
