#include "yotta/core/cpu/few_rows.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yotta;

namespace {

// Whole numbers, whose sums are exact: a(i, l) = i + l % 3, b(l, j) = j % 5 - l % 2.
template <class T, class C>
void check_rows(int64_t m, int64_t n, int64_t k, Into into, int threads) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  std::vector<T> a, b;
  std::vector<C> c(static_cast<size_t>(m * (n + 1)), C(3.0f));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l) a.push_back(T(static_cast<float>(i + l % 3)));
  for (int64_t j = 0; j < n; ++j)
    for (int64_t l = 0; l < k; ++l) b.push_back(T(static_cast<float>(j % 5 - l % 2)));
  const auto left = row_major(a.data(), m, k);
  const auto right = transposed(row_major(b.data(), n, k));
  const auto to = row_major(c.data(), m, n, n + 1);
  REQUIRE(has_few_rows(left, right, to));
  matmul_few_rows(left, right, to, into, threads);
  int wrong = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = into == Into::accumulate ? 3.0f : 0.0f;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<float>(i + l % 3) * static_cast<float>(j % 5 - l % 2);
      wrong += !(static_cast<float>(to(i, j)) == static_cast<float>(C(sum)));
    }
    wrong += !(static_cast<float>(to(i, n)) == 3.0f);  // beside C
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("one to four rows, columns and k that nothing divides, any number of threads") {
  for (const Into into : {Into::overwrite, Into::accumulate})
    for (const int64_t m : {1, 2, 3, 4})
      for (const int threads : {1, 2, 5}) {
        check_rows<float, float>(m, 131, 70, into, threads);
        check_rows<float, float>(m, 1451, 70, into, threads);  // worth a thread
        check_rows<bfloat16, float>(m, 7, 33, into, threads);
        check_rows<bfloat16, float>(m, 1000, 101, into, threads);
        check_rows<bfloat16, bfloat16>(m, 131, 64, into, threads);
        check_rows<double, double>(m, 64, 3, into, threads);
      }
}
TEST_CASE("five rows are not few, and columns of B must be neighbours along k") {
  std::vector<float> x(400);
  const auto five = row_major(x.data(), 5, 20), one = row_major(x.data(), 1, 20);
  const auto square = row_major(x.data(), 20, 20);
  CHECK_FALSE(has_few_rows(five, transposed(square), five));
  CHECK_FALSE(has_few_rows(one, square, one));
  CHECK(has_few_rows(one, transposed(square), one));
}
