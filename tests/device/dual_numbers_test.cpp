#include "yotta/device/dual_numbers.hpp"

#include <doctest/doctest.h>

using namespace yotta;

namespace {
// f(score, a[0], a[1]) by ordinary code, for numbers and Duals.
template <class Score>
Score mixed(Score score, Captured<double> a) {
  using std::exp, std::tanh;
  const Score x = score * 3 - Score(a[1]) / 2;
  return Score(a[0]) * tanh(x / Score(a[0])) + exp(-x) * tanh_of(x) -
         score / (1 + Score(a[1]) * Score(a[1]));
}
}  // namespace

TEST_CASE("a Dual has the function's value, and its derivatives by score and captured numbers") {
  double a[] = {1.5, 0.7};
  const double s = 0.4, step = 1e-6;
  const Captured<double> captured{a, 5};
  const Dual<double, 2> y = mixed(Dual<double, 2>::score(s), captured);
  CHECK(y.value == mixed(s, captured));
  CHECK(std::abs(y.slope - (mixed(s + step, captured) - mixed(s - step, captured)) / (2 * step)) <=
        1e-9);
  REQUIRE(y.used == 2);
  for (int i = 0; i < 2; ++i) {
    double* const at = a + (y.index[i] - 5);
    *at += step;
    const double above = mixed(s, captured);
    *at -= 2 * step;
    const double difference = (above - mixed(s, captured)) / (2 * step);
    *at += step;
    CHECK(std::abs(y.partial[i] - difference) <= 1e-9);
  }
  CHECK(y.index[0] != y.index[1]);
}

TEST_CASE("branches go by the value") {
  using D = Dual<float>;
  const auto relu = [](auto x) { return x > decltype(x)(0) ? x : decltype(x)(0); };
  CHECK(relu(D::score(2)).slope == 1);
  CHECK(relu(D::score(-2)).slope == 0);
  CHECK(D(1) < D(2));
}

TEST_CASE("a Dual of more captured numbers than it has room for says so, and stays so") {
  const double a[] = {1, 2, 3};
  const Captured<double> captured{a};
  using D = Dual<double, 2>;
  const D two = D(captured[0]) * D(captured[1]) * D(captured[0]);
  CHECK(!two.overflowed());
  const D three = two + D(captured[2]);
  CHECK(three.overflowed());
  CHECK((D(1) + three * three).overflowed());
  CHECK(three.value == 5);
  CHECK(!Dual<double>(captured[0]).overflowed());  // only the derivative by the score is asked for
}
