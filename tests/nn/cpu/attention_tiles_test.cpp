#include "yotta/nn/cpu/attention_tiles.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yotta;
using namespace yotta::detail;

TEST_CASE("a query sees a prefix of the keys: none, those up to the diagonal, or all") {
  for (const int64_t ahead : {-9, -2, 0, 3, 20})
    for (const int64_t j : {0, 4})
      for (int64_t t = 0; t < 8; ++t) {
        int64_t seen = 0;
        for (int64_t key = j; key < j + 5; ++key) seen += key <= t + ahead ? 1 : 0;
        CHECK(keys_seen(t, ahead, j, 5) == seen);
      }
}

TEST_CASE("online softmax: a row taken in two parts has the sums of the whole") {
  const std::vector<double> scores = {1, 900, -3, 2, 1000, 4};
  const std::vector<double> v = {1, 2, 3, 4, 5, 6};
  for (const int64_t cut : {1, 3, 5}) {
    double m = 0, l = 0, o = 0;
    for (const auto& [begin, end] : {std::pair{int64_t{0}, cut}, {cut, int64_t{6}}}) {
      std::vector<double> part(scores.begin() + begin, scores.begin() + end);
      online_softmax_row(part.data(), end - begin, end - begin, 0.01, begin == 0, m, l, &o, 1);
      for (int64_t i = begin; i < end; ++i)
        o += part[static_cast<size_t>(i - begin)] * v[static_cast<size_t>(i)];
    }
    double sum = 0, expected = 0;
    for (size_t i = 0; i < 6; ++i) {
      sum += std::exp(scores[i] / 100);
      expected += std::exp(scores[i] / 100) * v[i];
    }
    CHECK(o / l == doctest::Approx(expected / sum).epsilon(1e-13));
    CHECK(m + std::log(l) == doctest::Approx(std::log(sum)).epsilon(1e-13));
  }
}

TEST_CASE("queries that stand before all keys get zeros, not NaN") {
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> o = {9, 9, 9, 9}, L = {9, 9}, scores(attention_BQ * attention_BK);
  const auto in = row_major<const float>(x.data(), 2, 2);
  for (const int64_t ahead : {-1, -2, -50}) {
    const BlockwiseHead<float> head{in, in, in, row_major(o.data(), 2, 2), L.data(), ahead};
    blockwise_tile(head, 0, 2, scores.data());
    CHECK(o[0] == 0);
    CHECK(o[1] == 0);
    CHECK(L[0] == -INFINITY);
    CHECK(o[3] == (ahead == -1 ? 2 : 0));  // query 1 sees key 0 alone
    CHECK((L[1] == -INFINITY) == (ahead < -1));
  }
}
