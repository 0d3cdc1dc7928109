#include "yotta/nn/cpu/vectors.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace yotta;

namespace {
template <class Real>
std::vector<Real> numbers(int64_t n) {
  std::vector<Real> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), Real{1});
  return x;
}
}  // namespace

TEST_CASE_TEMPLATE("every number is visited once, for every length, and none behind the end", Real,
                   float, double) {
  for (int64_t n = 0; n <= 3 * lane_count<Real> + 1; ++n) {
    CAPTURE(n);
    const std::vector<Real> x = numbers<Real>(n);
    std::vector<Real> y(static_cast<size_t>(n) + lane_count<Real>, Real{-7});
    for_lanes<Real>(n, [&](int64_t i, auto count) {
      store(y.data() + i, load(x.data() + i, count) * Real{2}, count);
    });
    for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == (i < x.size() ? 2 * x[i] : Real{-7}));
  }
}

TEST_CASE_TEMPLATE("sums and maxima leave out what is behind the end", Real, float, double) {
  for (int64_t n = 0; n <= 3 * lane_count<Real> + 1; ++n) {
    CAPTURE(n);
    const std::vector<Real> x = numbers<Real>(n);
    const Real sum = sum_lanes<Real>(
        n, [&](int64_t i, auto count) { return load(x.data() + i, count) + Real{1}; });
    CHECK(sum == static_cast<Real>(n * (n + 1) / 2 + n));
    const Real most = n > 0 ? static_cast<Real>(n) : -std::numeric_limits<Real>::infinity();
    CHECK(largest(x.data(), n) == most);
    std::vector<Real> negative = x;
    for (Real& each : negative) each = -each;
    CHECK(largest(negative.data(), n) == (n > 0 ? Real{-1} : most));
  }
}

TEST_CASE_TEMPLATE("a part of a register is loaded with zeros behind it", Real, float, double) {
  const std::vector<Real> x = numbers<Real>(lane_count<Real>);
  for (int count = 0; count <= lane_count<Real>; ++count) {
    const Vector<Real> v = load(x.data(), count);
    for (int i = 0; i < lane_count<Real>; ++i)
      CHECK(v[i] == (i < count ? static_cast<Real>(i + 1) : Real{0}));
  }
}

TEST_CASE_TEMPLATE("lanes are folded in halves, a fixed order", Real, float, double) {
  Vector<Real> v{};
  for (int i = 0; i < lane_count<Real>; ++i) v[i] = static_cast<Real>(i + 1);
  CHECK(sum_of_lanes<Real>(v) == static_cast<Real>(lane_count<Real> * (lane_count<Real> + 1) / 2));
  // The order shows in what is neither symmetric nor linear.
  const auto combine = [](auto a, auto b) { return a - b * b / 256; };
  Real lane[lane_count<Real>];
  for (int i = 0; i < lane_count<Real>; ++i) lane[i] = v[i];
  for (int half = lane_count<Real> / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] = combine(lane[i], lane[i + half]);
  CHECK(fold_lanes<Real>(v, combine) == doctest::Approx(lane[0]).epsilon(1e-5));
  const Vector<Real> filled = first_lanes<Real>(v, 1, Real{9});
  CHECK(filled[0] == Real{1});
  for (int i = 1; i < lane_count<Real>; ++i) CHECK(filled[i] == Real{9});
}

TEST_CASE("a maximum passes over NaN") {
  const std::vector<float> x = {1, NAN, 3, NAN};
  CHECK(largest(x.data(), 4) == 3);
}

TEST_CASE("bf16 is computed in f32: widened when it is loaded, rounded when it is stored") {
  for (int64_t n = 0; n <= 3 * lane_count<float> + 1; ++n) {
    CAPTURE(n);
    std::vector<bfloat16> x(static_cast<size_t>(n)), y(x.size() + 1, bfloat16(-7.0f));
    for (int64_t i = 0; i < n; ++i)
      x[static_cast<size_t>(i)] = bfloat16(1 + 0.0078125f * static_cast<float>(i));
    for_lanes<float>(n, [&](int64_t i, auto count) {
      store(y.data() + i, load(x.data() + i, count) * 1.01f, count);
    });
    for (size_t i = 0; i < x.size(); ++i)
      CHECK(y[i].bits == bfloat16(static_cast<float>(x[i]) * 1.01f).bits);
    CHECK(static_cast<float>(y.back()) == -7.0f);
    if (n > 0) CHECK(largest(x.data(), n) == static_cast<float>(x.back()));
  }
}
