#include "yotta/core/matmul.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "yotta/core/dtype.hpp"
#include "yotta/core/matmul_ladder.hpp"

using namespace yotta;

namespace {

enum class Layout { rows, columns, wide_rows, every_second };

// A (rows, cols) matrix of numbers in [-1, 1] with memory of its own, laid out as asked.
template <class T>
struct Matrix {
  std::vector<T> memory;
  MatrixView<T> view;

  Matrix(int64_t rows, int64_t cols, Layout layout, uint32_t seed) {
    const int64_t wide = cols + 5;
    switch (layout) {
      case Layout::rows: view = {nullptr, rows, cols, cols, 1}; break;
      case Layout::columns: view = {nullptr, rows, cols, 1, rows}; break;
      case Layout::wide_rows: view = {nullptr, rows, cols, wide, 1}; break;
      case Layout::every_second: view = {nullptr, rows, cols, 2 * wide, 2}; break;
    }
    const bool empty = rows == 0 || cols == 0;
    const int64_t last =
        empty ? 0 : (rows - 1) * view.row_stride + (cols - 1) * view.col_stride + 1;
    memory.resize(static_cast<size_t>(last));
    for (T& x : memory) {
      seed = seed * 1664525u + 1013904223u;
      x = static_cast<T>(static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
    }
    view.data = memory.data();
  }
};

// Largest error against the sums in double, as a part of what rounding may do to a sum of k
// products: (k + 2) eps times the sum of their sizes. Outside the view nothing may change; NaN
// counts as infinite.
template <class C, class T>
double worst_error(int64_t m, int64_t n, int64_t k, Layout la, Layout lb, Layout lc, Into into,
                   int threads) {
  const Matrix<T> a(m, k, la, 1), b(k, n, lb, 2);
  Matrix<C> c(m, n, lc, 3);
  const Matrix<C> before(m, n, lc, 3);
  std::vector<C> untouched = c.memory;
  matmul(a.view, b.view, c.view, into, threads);
  double worst = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = into == Into::accumulate ? static_cast<double>(before.view(i, j)) : 0;
      double sizes = std::fabs(sum);
      for (int64_t l = 0; l < k; ++l) {
        const double term = static_cast<double>(a.view(i, l)) * static_cast<double>(b.view(l, j));
        sum += term;
        sizes += std::fabs(term);
      }
      const double rounding =
          std::numeric_limits<C>::epsilon() * sizes * static_cast<double>(k + 2);
      const double error = std::fabs(static_cast<double>(c.view(i, j)) - sum);
      if (error > 0) worst = std::max(worst, error / rounding);
      if (std::isnan(error)) return HUGE_VAL;
      c.view(i, j) = untouched[static_cast<size_t>(&c.view(i, j) - c.memory.data())];
    }
  if (c.memory != untouched) return HUGE_VAL;
  return worst;
}

template <class C, class T>
void check_sizes(const std::vector<int64_t>& ms, const std::vector<int64_t>& ns,
                 const std::vector<int64_t>& ks) {
  int turn = 0;
  for (const int64_t m : ms)
    for (const int64_t n : ns)
      for (const int64_t k : ks)
        for (const Layout la : {Layout::rows, Layout::columns, Layout::every_second})
          for (const Layout lb : {Layout::wide_rows, Layout::columns, Layout::every_second})
            for (const Into into : {Into::overwrite, Into::accumulate}) {
              const Layout lc = static_cast<Layout>(turn++ % 4);
              CAPTURE(m);
              CAPTURE(n);
              CAPTURE(k);
              CAPTURE(la);
              CAPTURE(lb);
              CAPTURE(lc);
              CHECK_UNARY(worst_error<C, T>(m, n, k, la, lb, lc, into, 1 + turn % 3) <= 1.0);
            }
}

}  // namespace

TEST_CASE("float: nothing, one, edges of tiles, any layout") {
  check_sizes<float, float>({0, 1, 5, 13, 14, 15, 64}, {0, 1, 3, 31, 32, 64, 65},
                            {0, 1, 2, 16, 64});
}
TEST_CASE("double: nothing, one, edges of tiles, any layout") {
  check_sizes<double, double>({0, 1, 13, 29}, {1, 16, 33}, {0, 1, 70});
}
TEST_CASE("bf16 and f16: products summed in float") {
  check_sizes<float, bfloat16>({1, 30, 33, 64}, {2, 33, 64}, {1, 31, 64, 70});
  check_sizes<float, float16>({1, 30}, {2, 33}, {1, 70});
}
TEST_CASE("few rows, whose products need no packing") {
  check_sizes<float, float>({1, 2, 3, 4, 5}, {130}, {70, 256});
  check_sizes<float, bfloat16>({1, 2, 3, 4, 5}, {130}, {70, 256});
  check_sizes<double, double>({1, 4}, {130}, {70});
}
TEST_CASE("several cache blocks in every direction, none of them full") {
  constexpr int64_t BK = BlockShape<float>::BK, BN = BlockShape<float>::b_size / BK;
  check_sizes<float, float>({131}, {BN + 37}, {17});
  check_sizes<float, float>({31}, {37}, {2 * BK + 3});
  for (const int64_t k : {4225, 4577})  // whose last block would be empty, or nearly
    CHECK_UNARY(worst_error<float, float>(7, 40, k, Layout::rows, Layout::rows, Layout::rows,
                                          Into::overwrite, 1) <= 1.0);
  CHECK_UNARY(worst_error<float, float>(33, BN + 1, BK + 1, Layout::rows, Layout::columns,
                                        Layout::rows, Into::accumulate, 2) <= 1.0);
}

TEST_CASE("matmul_rounded is matmul, rounded once, on any number of threads") {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 200, 31},
                                                                   {3, 200, 500},
                                                                   {45, 170, 31},
                                                                   {200, 150, 1300},
                                                                   {40, 1100, 900},
                                                                   {900, 33, 64}}) {
    CAPTURE(m);
    const Matrix<bfloat16> a(m, k, Layout::rows, 1), b(k, n, Layout::columns, 2);
    for (const Into into : {Into::overwrite, Into::accumulate})
      for (const int threads : {1, 3}) {
        Matrix<bfloat16> rounded(m, n, Layout::wide_rows, 3);
        Matrix<float> sums(m, n, Layout::wide_rows, 4);
        for (size_t i = 0; i < sums.memory.size(); ++i)
          sums.memory[i] = static_cast<float>(rounded.memory[i]);
        matmul(a.view, b.view, sums.view, into, 1);
        matmul_rounded(a.view, b.view, rounded.view, into, threads);
        for (size_t i = 0; i < sums.memory.size(); ++i)
          CHECK_UNARY(rounded.memory[i].bits == bfloat16(sums.memory[i]).bits);
      }
  }
}

TEST_CASE("matmul_rounded refuses what can_round() does not take") {
  const Matrix<bfloat16> a(5, 2049, Layout::rows, 1), b(2049, 64, Layout::rows, 2);
  Matrix<bfloat16> c(5, 64, Layout::rows, 3);
  CHECK_FALSE(can_round(a.view, c.view));
  std::string said;
  try {
    matmul_rounded(a.view, b.view, c.view, Into::overwrite);
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK_UNARY(said.find("c is (5, 64) with k 2049") != std::string::npos);
}

TEST_CASE_TEMPLATE("the result has the same bits on 1, 2, 3 and 8 threads", T, float, bfloat16) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{200, 150, 300},
                                                                   {7, 700, 300},
                                                                   {1, 700, 3000},
                                                                   {500, 20, 257},
                                                                   {129, 1100, 40},
                                                                   {1100, 150, 40},
                                                                   {642, 645, 580}}) {
    CAPTURE(m);
    const Matrix<T> a(m, k, Layout::rows, 1), b(k, n, Layout::columns, 2);
    Matrix<float> one(m, n, Layout::rows, 3);
    matmul(a.view, b.view, one.view, Into::overwrite, 1);
    for (const int threads : {2, 3, 8}) {
      Matrix<float> many(m, n, Layout::rows, 4);
      matmul(a.view, b.view, many.view, Into::overwrite, threads);
      CHECK(std::memcmp(one.memory.data(), many.memory.data(), one.memory.size() * sizeof(float)) ==
            0);
    }
  }
}

TEST_CASE_TEMPLATE("overwrite does not read C, and NaN in A reaches its row only", T, float,
                   bfloat16) {
  const int64_t m = 40, n = 70, k = 50;
  Matrix<T> a(m, k, Layout::rows, 1);
  const Matrix<T> b(k, n, Layout::rows, 2);
  Matrix<float> c(m, n, Layout::rows, 3);
  for (float& x : c.memory) x = NAN;
  a.view(17, 3) = T(NAN);
  matmul(a.view, b.view, c.view, Into::overwrite, 2);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) CHECK(std::isnan(c.view(i, j)) == (i == 17));
}

TEST_CASE("a head inside (B*T, 3C): rows 3C apart") {
  const int64_t T = 64, C = 192, D = 64;
  const Matrix<float> qkv(T, 3 * C, Layout::rows, 1);
  const auto q = row_major(qkv.memory.data() + D, T, D, 3 * C);
  const auto k = row_major(qkv.memory.data() + C + D, T, D, 3 * C);
  std::vector<float> scores(static_cast<size_t>(T * T)), naive(scores);
  matmul(q, transposed(k), row_major(scores.data(), T, T), Into::overwrite, 1);
  matmul_naive(q, transposed(k), row_major(naive.data(), T, T), Into::overwrite);
  for (size_t i = 0; i < naive.size(); ++i) CHECK_UNARY(std::fabs(scores[i] - naive[i]) <= 1e-5f);
}

TEST_CASE("shapes that do not fit name the caller's line") {
  std::vector<float> x(64);
  std::string said;
  try {
    matmul(row_major(x.data(), 3, 4), row_major(x.data(), 3, 4), row_major(x.data(), 3, 4),
           Into::overwrite, 1);
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK_UNARY(said.find("matmul_test.cpp") != std::string::npos);
  CHECK_UNARY(said.find("a is (3, 4), b is (3, 4)") != std::string::npos);
}
