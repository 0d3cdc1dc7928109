#include "yotta/nn/cpu/body.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace yotta;

namespace {

// y = x + 1, and how often it was called for how many numbers.
template <class Real>
struct BodyPlusOne {
  const Real* x;
  Real* y;
  template <class Count>
  YOTTA_BODY void operator()(int64_t i, Count count) const {
    store(y + i, load(x + i, count) + Real{1}, count);
  }
};

// Of a row: its sum, the sum of its squares, its largest number.
template <class Real>
struct BodyRowFigures {
  int64_t C;
  const Real* x;
  Real* out;  // (N, 3)
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const Real* row = x + n * C;
    const auto sums = team.template sums<2>(C, [&](int64_t c, auto count) {
      const auto v = load(row + c, count);
      return std::array{v, v * v};
    });
    const Real again = team.sum(C, [&](int64_t c, auto count) { return load(row + c, count); });
    team.meet();
    team.once([&] {
      out[3 * n] = sums[0] == again ? sums[0] : Real{-1};
      out[3 * n + 1] = sums[1];
      out[3 * n + 2] = team.largest(row, C);
    });
  }
};

}  // namespace

TEST_CASE_TEMPLATE("a body of numbers runs over all of them, whatever their number", Real, float,
                   double) {
  for (const int64_t n : {0, 1, 15, 16, 17, 70000}) {
    std::vector<Real> x(static_cast<size_t>(n)), y(x.size());
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = static_cast<Real>(i);
    run_elementwise<Real>("plus one", Device::cpu, n, BodyPlusOne<Real>{x.data(), y.data()},
                          Where::current());
    bool right = true;
    for (size_t i = 0; i < y.size(); ++i) right = right && y[i] == x[i] + 1;
    CHECK(right);
  }
}

TEST_CASE_TEMPLATE("a body of rows adds up along each", Real, float, double) {
  for (const int64_t C : {1, 7, 16, 33}) {
    const int64_t N = 5;
    std::vector<Real> x(static_cast<size_t>(N * C)), out(static_cast<size_t>(3 * N));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<Real>(static_cast<int>(i * 7 % 11) - 5);
    run_rows<Real>("figures", Device::cpu, N, C, BodyRowFigures<Real>{C, x.data(), out.data()},
                   Where::current());
    for (int64_t n = 0; n < N; ++n) {
      Real sum = 0, squares = 0, most = x[static_cast<size_t>(n * C)];
      for (int64_t c = 0; c < C; ++c) {
        const Real v = x[static_cast<size_t>(n * C + c)];
        sum += v, squares += v * v, most = std::max(most, v);
      }
      CHECK(out[static_cast<size_t>(3 * n)] == sum);
      CHECK(out[static_cast<size_t>(3 * n + 1)] == squares);
      CHECK(out[static_cast<size_t>(3 * n + 2)] == most);
    }
  }
}

TEST_CASE("a kernel's lane has one number") {
  float x = 3, y = 0;
  BodyPlusOne<float>{&x, &y}(0, OneLane{});
  CHECK(y == 4);
  static_assert(std::is_same_v<decltype(load(&x, OneLane{})), float>);
}
