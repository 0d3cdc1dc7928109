#include "yotta/core/matmul_ladder.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace yotta;

TEST_CASE("naive, by hand") {
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, 1, 0, 3};
  std::vector<float> c(4, 100);
  matmul_naive(row_major(a.data(), 2, 3), row_major(b.data(), 3, 2), row_major(c.data(), 2, 2),
               Into::overwrite);
  CHECK(c == std::vector<float>{5, 11, 14, 23});
  matmul_naive(row_major(a.data(), 2, 3), row_major(b.data(), 3, 2), row_major(c.data(), 2, 2),
               Into::accumulate);
  CHECK(c == std::vector<float>{10, 22, 28, 46});
}

TEST_CASE("reordered and tiled agree exactly with naive on whole numbers, at any size") {
  for (const int64_t m : {0, 1, 3, 65})
    for (const int64_t n : {0, 1, 5, 257})
      for (const int64_t k : {0, 1, 7, 129})
        for (const Into into : {Into::overwrite, Into::accumulate}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          std::vector<double> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
          for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i % 7) - 3;
          for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i % 5) - 2;
          std::vector<double> naive(static_cast<size_t>(m * n), 11), reordered(naive), tiled(naive);
          const auto va = row_major(a.data(), m, k), vb = row_major(b.data(), k, n);
          matmul_naive(va, vb, row_major(naive.data(), m, n), into);
          matmul_reordered(va, vb, row_major(reordered.data(), m, n), into);
          matmul_tiled(va, vb, row_major(tiled.data(), m, n), into);
          CHECK(reordered == naive);
          CHECK(tiled == naive);
        }
}

TEST_CASE("shapes that do not fit are refused with all three") {
  std::vector<float> x(64);
  const auto a = row_major(x.data(), 3, 4), b = row_major(x.data(), 5, 2),
             c = row_major(x.data(), 3, 2);
  std::string said;
  try {
    matmul_naive(a, b, c, Into::overwrite);
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK_UNARY(said.find("matmul_ladder_test.cpp") != std::string::npos);
  CHECK_UNARY(said.find("a is (3, 4), b is (5, 2), c is (3, 2)") != std::string::npos);
  CHECK_THROWS_AS(matmul_tiled(a, row_major(x.data(), 4, 3), c, Into::overwrite), Error);
  CHECK_THROWS_AS(
      matmul_reordered(a, row_major(x.data(), 4, 2), row_major(x.data(), 2, 2), Into::overwrite),
      Error);
}
