#include "yotta/core/log_matmul.hpp"

#include <doctest/doctest.h>

#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

// A matrix of logarithms from -spread to 0.
struct Logs {
  Logs(const char* name, int64_t m, int64_t n, float spread) : rows(m), cols(n) {
    for (uint64_t i = 0; i < static_cast<uint64_t>(rows * cols); ++i)
      numbers.push_back(-spread * static_cast<float>(Random(5, name).uniform(i)));
  }
  MatrixView<const float> view() const { return row_major(numbers.data(), rows, cols); }
  float& at(int64_t i, int64_t j) { return numbers[static_cast<size_t>(i * cols + j)]; }
  int64_t rows, cols;
  std::vector<float> numbers;
};

struct Product {
  std::vector<float> c;
  int64_t again;
};

Product product(const Logs& a, const Logs& b) {
  Product made = {std::vector<float>(static_cast<size_t>(a.rows * b.cols)), 0};
  made.again = log_matmul(a.view(), b.view(), row_major(made.c.data(), a.rows, b.cols));
  return made;
}

// One number in double, with the largest term taken out.
double exact(const Logs& a, const Logs& b, int64_t i, int64_t j) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  const auto term = [&](int64_t l) {
    return static_cast<double>(a.view()(i, l)) + static_cast<double>(b.view()(l, j));
  };
  for (int64_t l = 0; l < a.cols; ++l) largest = std::max(largest, term(l));
  if (std::isinf(largest)) return largest;
  for (int64_t l = 0; l < a.cols; ++l) sum += std::exp(term(l) - largest);
  return largest + std::log(sum);
}

// The largest error of c; infinities must be the same.
double error_of(const std::vector<float>& c, const Logs& a, const Logs& b) {
  double worst = 0;
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.cols; ++j) {
      const double wanted = exact(a, b, i, j);
      const auto got = static_cast<double>(c[static_cast<size_t>(i * b.cols + j)]);
      const double error = got == wanted ? 0 : std::abs(got - wanted) / (1 + std::abs(wanted));
      if (!(error <= worst)) worst = error;  // a NaN stays
    }
  return worst;
}

}  // namespace

TEST_CASE("by a matmul and term by term, as in double, for spreads from none to far too wide") {
  for (const float spread : {0.0f, 1.0f, 40.0f, 300.0f, 3000.0f})
    for (const int64_t k : {1, 7, 64}) {
      CAPTURE(spread);
      CAPTURE(k);
      const Logs a("a", 9, k, spread), b("b", k, 13, spread);
      CHECK(error_of(product(a, b).c, a, b) < 1e-6);
      std::vector<float> naive(9 * 13);
      log_matmul_naive(a.view(), b.view(), row_major(naive.data(), 9, 13));
      CHECK(error_of(naive, a, b) < 1e-6);
    }
}

TEST_CASE("sums are lost where large numbers do not meet, and only those are computed again") {
  Logs a("a", 2, 2, 1), b("b", 2, 2, 1);
  CHECK(product(a, b).again == 0);
  a.at(0, 0) = 0;  // row 0 is large at l = 0, column 0 at l = 1
  a.at(0, 1) = -200;
  b.at(0, 0) = -200;
  b.at(1, 0) = 0;
  const Product made = product(a, b);
  CHECK(made.again == 1);
  CHECK(static_cast<double>(made.c[0]) == doctest::Approx(-200 + std::log(2.0)));
  CHECK(error_of(made.c, a, b) < 1e-6);
}

TEST_CASE("a sum just above the limit has all its bits") {
  for (const float gap : {60.0f, 68.0f, 69.0f, 75.0f, 86.0f, 88.0f}) {
    CAPTURE(gap);
    Logs a("a", 1, 2, 0), b("b", 2, 1, 0);
    a.at(0, 1) = -gap;
    b.at(0, 0) = -gap - 1;
    CHECK(error_of(product(a, b).c, a, b) < 2e-7);
  }
}

TEST_CASE("logarithms of 0: rows and columns of nothing give nothing") {
  Logs a("a", 3, 4, 2), b("b", 4, 3, 2);
  for (int64_t l = 0; l < 4; ++l) a.at(1, l) = b.at(l, 2) = log_zero;
  a.at(0, 2) = log_zero;
  const Product made = product(a, b);
  CHECK(error_of(made.c, a, b) < 1e-6);
  CHECK(made.c[3] == log_zero);
  CHECK(made.c[2] == log_zero);
}

TEST_CASE("a NaN stays one, and shapes that do not fit are refused") {
  Logs a("a", 2, 3, 1), b("b", 3, 2, 1);
  a.at(1, 1) = std::numeric_limits<float>::quiet_NaN();
  const Product made = product(a, b);
  CHECK(std::isnan(made.c[2]));
  CHECK(std::isfinite(made.c[0]));
  const Logs one("a", 1, 1, std::numeric_limits<float>::quiet_NaN());
  CHECK(std::isnan(product(one, one).c[0]));
  std::vector<float> c(4);
  CHECK_THROWS_AS(log_matmul(a.view(), a.view(), row_major(c.data(), 2, 2)), Error);
}

TEST_CASE("sums of nothing are logarithms of 0, and there may be none") {
  const Product made = product(Logs("a", 2, 0, 1), Logs("b", 0, 3, 1));
  for (const float each : made.c) CHECK(each == log_zero);
  CHECK(product(Logs("a", 0, 4, 1), Logs("b", 4, 3, 1)).c.empty());
}

TEST_CASE("exps: a matmul of 256 cubed needs 128 times fewer") {
  CHECK(naive_exps(256, 256, 256) / log_matmul_exps(256, 256, 256) == 128);
}
