#include "yotta/nn/block_mask.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// Rows of tiles from a list: . empty, p partial, f full.
std::string drawn(const BlockTiles& t, int b = 0, int h = 0) {
  std::string text;
  for (int row = 0; row < t.rows(); ++row) {
    const int line = t.mask_of(b, h) * t.rows() + row;
    std::string tiles(t.columns(), '.');
    for (int i = t.by_row.first[line]; i < t.by_row.first[line + 1]; ++i)
      tiles[t.by_row.at[i]] = t.by_row.kind[i] == TileKind::full ? 'f' : 'p';
    text += tiles + " ";
  }
  return text;
}
std::string by_column(const BlockTiles& t, int b = 0, int h = 0) {
  std::string text(t.rows() * (t.columns() + 1), '.');
  for (int row = 0; row < t.rows(); ++row) text[row * (t.columns() + 1) + t.columns()] = ' ';
  for (int column = 0; column < t.columns(); ++column) {
    const int line = t.mask_of(b, h) * t.columns() + column;
    for (int i = t.by_column.first[line]; i < t.by_column.first[line + 1]; ++i)
      text[t.by_column.at[i] * (t.columns() + 1) + column] =
          t.by_column.kind[i] == TileKind::full ? 'f' : 'p';
  }
  return text;
}
}  // namespace

TEST_CASE("tiles are full, partial and empty as the mask says, last tiles smaller") {
  const auto causal = create_block_mask(Causal{}, {.queries = 14, .keys = 14, .BQ = 4, .BK = 4});
  CHECK(drawn(causal) == "p... fp.. ffp. fffp ");
  CHECK(drawn(create_block_mask(SlidingWindow{5}, {.queries = 12, .keys = 12, .BQ = 4, .BK = 4})) ==
        "p.. pp. .pp ");
  CHECK(drawn(create_block_mask(PrefixLm{5}, {.queries = 8, .keys = 8, .BQ = 4, .BK = 2})) ==
        "ffp. ffpp ");
  CHECK(drawn(create_block_mask(NoMask{}, {.queries = 1, .keys = 9, .BQ = 4, .BK = 4})) == "fff ");
  const auto none = [](int, int, int, int) { return false; };
  CHECK(drawn(create_block_mask(none, {.queries = 8, .keys = 4, .BQ = 4, .BK = 4})) == ". . ");
  // A ragged tile of which every score is seen is full.
  CHECK(drawn(create_block_mask(PrefixLm{10}, {.queries = 10, .keys = 10, .BQ = 8, .BK = 8})) ==
        "ff ff ");
}

TEST_CASE("both lists have the same tiles, for masks of each sequence and head") {
  const int document[] = {0, 0, 0, 1, 1, 1, /* b = 1 */ 0, 1, 1, 1, 1, 1};
  const auto mask = [&](int b, int h, int q, int kv) {
    return SameDocument{document, 6}(b, h, q, kv) && (h == 0 || kv <= q);
  };
  const auto tiles =
      create_block_mask(mask, {.B = 2, .H = 2, .queries = 6, .keys = 6, .BQ = 2, .BK = 3});
  CHECK(drawn(tiles, 0, 0) == "f. pp .f ");
  CHECK(drawn(tiles, 0, 1) == "p. pp .p ");
  CHECK(drawn(tiles, 1, 0) == "pp pf pf ");
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 2; ++h) CHECK(by_column(tiles, b, h) == drawn(tiles, b, h));
  const auto causal = create_block_mask(Causal{}, {.queries = 7, .keys = 7, .BQ = 2, .BK = 2});
  CHECK(by_column(causal) == drawn(causal));
  CHECK(drawn(causal, 5, 3) == drawn(causal));  // one mask for all
}

TEST_CASE("counts: tiles by formula, and the scores in them") {
  for (const int n : {1, 2, 9}) {
    const int T = 8 * n;
    const auto causal = create_block_mask(Causal{}, {.queries = T, .keys = T, .BQ = 8, .BK = 8});
    CHECK(count_tiles(causal) == causal_tiles(n));
    CHECK(count_tiles(causal, TileKind::partial) == n);
    CHECK(computed_scores(causal) == 64 * causal_tiles(n));
    for (const int w : {1, 2, 4, 20}) {
      const auto window =
          create_block_mask(SlidingWindow{8 * w}, {.queries = T, .keys = T, .BQ = 8, .BK = 8});
      CHECK(count_tiles(window) == window_tiles(n, w));
    }
  }
  const auto ragged = create_block_mask(Causal{}, {.queries = 5, .keys = 5, .BQ = 4, .BK = 4});
  CHECK(computed_scores(ragged) == 4 * 4 + 1 * 4 + 1 * 1);
}

TEST_CASE("sizes that make no block mask") {
  const auto message = [](const MaskSizes& sizes) {
    return message_of([&] { create_block_mask(Causal{}, sizes); });
  };
  CHECK(contains(message({.B = 0, .queries = 4, .keys = 4}), "B 0, H 1, 4 queries, 4 keys"));
  CHECK(contains(message({.queries = 4, .keys = 4, .BK = 257}), "tiles 1 to 256 on a side"));
  CHECK(contains(message({.queries = -1, .keys = 4}), "-1 queries"));
  CHECK(count_tiles(create_block_mask(Causal{}, {.queries = 0, .keys = 0})) == 0);
}
