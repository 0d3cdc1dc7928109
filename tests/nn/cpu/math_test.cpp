#include "yotta/nn/cpu/math.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace yotta;

namespace {
template <class Real>
Real exp_of(double x) {
  return vector_exp<Real>(in_all_lanes(static_cast<Real>(x)))[0];
}
// The largest relative error over [from, to].
template <class Real, class F, class G>
double worst_error(double from, double to, double step, F ours, G theirs) {
  double worst = 0;
  for (double at = from; at <= to; at += step) {
    const double x = static_cast<double>(static_cast<Real>(at)), expected = theirs(x);
    const double error = std::abs(static_cast<double>(ours(x)) - expected) / expected;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}
}  // namespace

TEST_CASE("exp agrees with the library's over the whole range") {
  const auto libm = [](double x) { return std::exp(x); };
  CHECK(worst_error<float>(-86.9, 88.7, 0.0031, exp_of<float>, libm) <= 1.5e-7);
  CHECK(worst_error<double>(-708.0, 709.7, 0.031, exp_of<double>, libm) <= 4e-16);
  CHECK(worst_error<double>(-1.0, 1.0, 0.0001, exp_of<double>, libm) <= 4e-16);
}

TEST_CASE_TEMPLATE("exp at the edges: zero, infinity, NaN", Real, float, double) {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(exp_of<Real>(0.0) == 1);
  CHECK(exp_of<Real>(-0.0) == 1);
  CHECK(exp_of<Real>(-infinity) == 0);
  CHECK(exp_of<Real>(-1000) == 0);
  CHECK(exp_of<Real>(1000) == static_cast<Real>(infinity));
  CHECK(exp_of<Real>(infinity) == static_cast<Real>(infinity));
  CHECK(std::isnan(exp_of<Real>(std::nan(""))));
}

TEST_CASE("the logistic function keeps its digits in both tails") {
  const auto libm = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto ours = [](double x) { return logistic(in_all_lanes(static_cast<float>(x)))[0]; };
  CHECK(worst_error<float>(-80, 80, 0.0017, ours, libm) <= 3e-7);
}

TEST_CASE_TEMPLATE("sums and maxima over any count leave out what is behind the end", Real, float,
                   double) {
  std::vector<Real> x(100, Real{1000});
  for (int64_t n = 0; n <= 67; ++n) {
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<Real>(-1 - i % 5);
    double expected = 0;
    for (int64_t i = 0; i < n; ++i) expected += static_cast<double>(x[static_cast<size_t>(i)]);
    const Real sum = sum_lanes<Real>(n, [&](int64_t i, auto count) {
      return load(x.data() + i, count) + Real{1};  // zero lanes would add 1 each
    });
    CHECK(static_cast<double>(sum) == expected + static_cast<double>(n));
    if (n > 0) CHECK(largest(x.data(), n) == -1);
  }
  CHECK(largest(x.data(), 0) == -std::numeric_limits<Real>::infinity());
}

TEST_CASE_TEMPLATE("the square root is that of std::sqrt, to the bit", Real, float, double) {
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  std::vector<Real> x = {0, Real{-0.0}, 1, 2, Real{0.01f}, infinity, -1, -infinity};
  x.push_back(std::numeric_limits<Real>::quiet_NaN());
  x.push_back(std::numeric_limits<Real>::denorm_min());
  x.push_back(std::numeric_limits<Real>::max());
  for (int i = 0; i < 200; ++i) x.push_back(Real{1.25} * static_cast<Real>(i * i) + Real{0.375});
  std::vector<Real> y(x.size());
  for_lanes<Real>(static_cast<int64_t>(x.size()), [&](int64_t i, auto count) {
    store(y.data() + i, vector_sqrt<Real>(load(static_cast<const Real*>(x.data()) + i, count)),
          count);
  });
  for (size_t i = 0; i < x.size(); ++i) {
    const Real expected = std::sqrt(x[i]);
    CAPTURE(x[i]);
    CHECK(std::isnan(y[i]) == std::isnan(expected));
    if (!std::isnan(expected)) CHECK(std::memcmp(&y[i], &expected, sizeof(Real)) == 0);
  }
}
