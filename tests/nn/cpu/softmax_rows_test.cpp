#include "yotta/nn/cpu/softmax_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "yotta/nn/flash_attention.hpp"

using namespace yotta;

namespace {
// Scores (rows, n), sums and o (rows, d), of rows that have seen nothing, little or much before.
template <class Real>
struct Rows {
  int64_t rows, n, d;
  std::vector<Real> scores, o;
  std::vector<OnlineSums<Real>> sums;

  Rows(int64_t r, int64_t cols, int64_t width) : rows(r), n(cols), d(width), sums(r) {
    for (int64_t i = 0; i < r * cols; ++i)
      scores.push_back(static_cast<Real>(i * 7919 % 1009) / Real{50} - Real{10});
    for (int64_t i = 0; i < r * width; ++i) o.push_back(static_cast<Real>(i * 31 % 17) - Real{8});
    for (int64_t i = 0; i < r; ++i) {
      if (i % 3 == 1) sums[i] = {static_cast<Real>(i % 5 - 2), static_cast<Real>(i + 1)};
      if (i % 3 == 2) sums[i] = {Real{1000}, Real{2}};
      if (sums[i].l == 0) std::fill_n(&o[i * width], width, Real{0});
      if (i % 4 == 0)  // none of these is seen
        std::fill_n(&scores[i * cols], cols, -std::numeric_limits<Real>::infinity());
    }
  }
};
}  // namespace

TEST_CASE_TEMPLATE("a tile's rows together have the sums that each has alone", Real, float,
                   double) {
  const double tolerance = sizeof(Real) == 4 ? 1e-6 : 1e-14;
  for (const int64_t rows : {1, 7, 16, 37, 64})
    for (const int64_t n : {1, 16, 61, 256}) {
      CAPTURE(rows);
      CAPTURE(n);
      Rows<Real> together(rows, n, 20), alone(rows, n, 20);
      const detail::ScoreTile<Real> S;
      for (int64_t r = 0; r < rows; ++r) std::copy_n(&together.scores[r * n], n, S.row(r));
      detail::online_softmax_rows(S, n, Real{0.5}, together.sums.data(),
                                  row_major(together.o.data(), rows, 20));
      for (int64_t r = 0; r < rows; ++r) {
        online_softmax_row(&alone.scores[r * n], n, Real{0.5}, alone.sums[r], &alone.o[r * 20], 20);
        CHECK(std::equal(S.row(r), S.row(r) + n, &alone.scores[r * n]));
        CHECK(together.sums[r].m == alone.sums[r].m);
        CHECK(std::abs(together.sums[r].l - alone.sums[r].l) <= tolerance * alone.sums[r].l);
      }
      for (size_t i = 0; i < alone.o.size(); ++i)
        CHECK(std::abs(together.o[i] - alone.o[i]) <= tolerance * std::abs(alone.o[i]));
    }
}
