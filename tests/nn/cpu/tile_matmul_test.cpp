#include "yotta/nn/cpu/tile_matmul.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yotta;
using namespace yotta::detail;

namespace {
template <class Real>
std::vector<Real> numbers(int64_t count, int step) {
  std::vector<Real> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<Real>((i * step) % 17) - 8;
  return x;
}

// Q K' and then S' X, S X of tiles, against sums of small whole numbers, which are exact.
template <class Real>
void check_products(int64_t queries, int64_t keys, int64_t first_key, int64_t d) {
  const auto q = numbers<Real>(queries * d, 5), k = numbers<Real>((first_key + keys) * d, 3);
  const auto q_rows = row_major<const Real>(q.data(), queries, d);
  const auto k_rows = row_major<const Real>(k.data(), first_key + keys, d);
  const ScoreTile<Real> S;
  const auto s = S.part(queries, keys);
  tile_matmul(transposed(TransposedTiles<Real>(q_rows).columns(0, queries)),
              TransposedTiles<Real>(k_rows).columns(first_key, keys), s, Into::overwrite);
  const PaddedRows<Real> o(queries, d), back(keys, d);
  for (int twice = 0; twice < 2; ++twice) {
    tile_matmul(S.read(queries, keys), PaddedRows<Real>(k_rows).read(first_key, first_key + keys),
                o.rows(0, queries), Into::accumulate);
    tile_matmul(transposed(S.read(queries, keys)), PaddedRows<Real>(q_rows).read(0, queries),
                back.rows(0, keys), twice == 0 ? Into::overwrite : Into::accumulate);
  }
  int64_t wrong = 0;
  for (int64_t t = 0; t < queries; ++t)
    for (int64_t j = 0; j < keys; ++j) {
      Real sum = 0;
      for (int64_t c = 0; c < d; ++c) sum += q_rows(t, c) * k_rows(first_key + j, c);
      wrong += sum == s(t, j) ? 0 : 1;
    }
  for (int64_t c = 0; c < d; ++c) {
    for (int64_t t = 0; t < queries; ++t) {
      Real sum = 0;
      for (int64_t j = 0; j < keys; ++j) sum += s(t, j) * k_rows(first_key + j, c);
      wrong += 2 * sum == o.row(t)[c] ? 0 : 1;
    }
    for (int64_t j = 0; j < keys; ++j) {
      Real sum = 0;
      for (int64_t t = 0; t < queries; ++t) sum += s(t, j) * q_rows(t, c);
      wrong += 2 * sum == back.row(j)[c] ? 0 : 1;
    }
  }
  CHECK_MESSAGE(wrong == 0,
                queries << " queries, " << keys << " keys from " << first_key << ", d " << d);
}
}  // namespace

TEST_CASE("products of tiles: whole ones, ragged ones, and keys from the middle of a tile") {
  for (const int64_t d : {1, 8, 33}) {
    check_products<float>(flash_BQ, 40, 0, d);
    check_products<float>(1, 1, 0, d);
    check_products<float>(15, 31, flash_BK + 7, d);
    check_products<double>(13, 17, 3, d);
  }
  check_products<float>(5, flash_BK, flash_BK, 16);
}

TEST_CASE("rows are padded with zeros, come from bf16, and go back") {
  const std::vector<bfloat16> x = {bfloat16(1.f), bfloat16(2.f), bfloat16(3.f), bfloat16(4.f)};
  const PaddedRows<float> rows(row_major(x.data(), 2, 2));
  CHECK(rows.row(1)[0] == 3);
  for (int c = 2; c < TileShape<float>::TN; ++c) CHECK(rows.row(0)[c] == 0);
  std::vector<float> back(4);
  rows.copy_to(row_major(back.data(), 2, 2));
  CHECK(back == std::vector<float>{1, 2, 3, 4});
}
