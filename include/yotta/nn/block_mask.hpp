// Block masks: which tiles of the scores need work at all. A mask says it for one query and one
// key. An attention kernel works on tiles of BQ queries by BK keys, and should skip those in which
// no query sees any key, without asking for each score.
//
//     mask: window of 5, T = 12                tiles of 4 x 4        by row      by column
//     x . . . | . . . . | . . . .
//     x x . . | . . . . | . . . .              p . .                 0: 0        0: 0 1
//     x x x . | . . . . | . . . .              p p .                 1: 0 1      1: 1 2
//     x x x x | . . . . | . . . .              . p p                 2: 1 2      2: 2
//     --------+---------+--------
//     x x x x | x . . . | . . . .              f  full: each query sees each key; the mask
//     . x x x | x x . . | . . . .                 is not asked again
//     . . x x | x x x . | . . . .              p  partial: the mask is asked for each score
//     . . . x | x x x x | . . . .              .  empty: in no list, no work
//     ...
//
// The lists are compressed: for each row of tiles the numbers of its columns that are not empty,
// one row after the other. The forward pass and dq walk along rows, dk and dv along columns, so
// both are kept. They depend on the mask alone: a model makes them once and uses them in all
// layers, and in all heads and sequences if the mask is the same for them (H = 1, B = 1).
//
// Cost: to make them, the mask is called B H T^2 times. Forward 4 d FLOPs, backward 10 d, for each
// score of a tile that is not empty (flex_attention.hpp).
// Contract: the last row and column of tiles may be smaller. A mask has no state.
// Letters: B sequences and H heads with masks of their own, T sequence, BQ and BK a tile.
// Reference: Dong et al. (2024), FlexAttention, section 3 (its BlockMask and create_block_mask).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/device/attention_mods.hpp"

namespace yotta {

enum class TileKind : uint8_t { empty, partial, full };

// The tiles that are not empty, line by line. Line i has those from first[i] to first[i + 1].
struct TileList {
  std::vector<int> first;      // (lines + 1)
  std::vector<int> at;         // each tile's place in its line, from left to right or downwards
  std::vector<TileKind> kind;  // of each tile
};

struct BlockTiles {
  int B = 1, H = 1;  // masks: one for each sequence and head; 1: the same for all
  int queries = 0, keys = 0;
  int BQ = 64, BK = 64;
  TileList by_row;     // lines: (B, H, rows())
  TileList by_column;  // lines: (B, H, columns())

  int rows() const { return (queries + BQ - 1) / BQ; }
  int columns() const { return (keys + BK - 1) / BK; }
  // Which of the B H masks is that of head h in sequence b.
  int mask_of(int b, int h) const { return (B == 1 ? 0 : b) * H + (H == 1 ? 0 : h); }
};

// With the mask that they are made from, which partial tiles ask.
template <class Mask>
struct BlockMask : BlockTiles {
  Mask mask;
};

// Queries [q_begin, q_end) against keys [kv_begin, kv_end).
template <class Mask>
TileKind kind_of_tile(const Mask& mask, int b, int h, int q_begin, int q_end, int kv_begin,
                      int kv_end) {
  int seen = 0;
  for (int q = q_begin; q < q_end; ++q)
    for (int kv = kv_begin; kv < kv_end; ++kv) seen += mask(b, h, q, kv) ? 1 : 0;
  if (seen == 0) return TileKind::empty;
  return seen == (q_end - q_begin) * (kv_end - kv_begin) ? TileKind::full : TileKind::partial;
}

// One line for each row of tiles, of all masks.
template <class Mask>
TileList tiles_by_row(const Mask& mask, const BlockTiles& t) {
  TileList list{{0}, {}, {}};
  for (int line = 0; line < t.B * t.H * t.rows(); ++line) {
    const int row = line % t.rows(), h = line / t.rows() % t.H, b = line / t.rows() / t.H;
    for (int column = 0; column < t.columns(); ++column) {
      const TileKind kind =
          kind_of_tile(mask, b, h, row * t.BQ, std::min((row + 1) * t.BQ, t.queries), column * t.BK,
                       std::min((column + 1) * t.BK, t.keys));
      if (kind == TileKind::empty) continue;
      list.at.push_back(column);
      list.kind.push_back(kind);
    }
    list.first.push_back(static_cast<int>(list.at.size()));
  }
  return list;
}

// The same tiles, a line for each column.
inline TileList tiles_by_column(const TileList& by_row, int masks, int rows, int columns) {
  TileList list{{0}, {}, {}};
  for (int mask = 0; mask < masks; ++mask)
    for (int column = 0; column < columns; ++column) {
      for (int row = 0; row < rows; ++row) {
        const int line = mask * rows + row;
        const auto begin = by_row.at.begin() + by_row.first[line],
                   end = by_row.at.begin() + by_row.first[line + 1];
        const auto found = std::lower_bound(begin, end, column);
        if (found == end || *found != column) continue;
        list.at.push_back(row);
        list.kind.push_back(by_row.kind[found - by_row.at.begin()]);
      }
      list.first.push_back(static_cast<int>(list.at.size()));
    }
  return list;
}

inline constexpr int largest_tile = 256;

struct MaskSizes {
  int B = 1, H = 1, queries = 0, keys = 0, BQ = 64, BK = 64;
};
template <class Mask>
BlockMask<Mask> create_block_mask(const Mask& mask, const MaskSizes& sizes,
                                  Where where = Where::current()) {
  const auto& [B, H, queries, keys, BQ, BK] = sizes;
  if (B < 1 || H < 1 || queries < 0 || keys < 0 || BQ < 1 || BK < 1 ||
      std::max(BQ, BK) > largest_tile)
    fail(where,
         "create_block_mask: B {}, H {}, {} queries, {} keys, tiles of {} x {}; B and H are at "
         "least "
         "1 (1 if the mask does not depend on b or h), tiles 1 to {} on a side",
         B, H, queries, keys, BQ, BK, largest_tile);
  BlockTiles tiles{B, H, queries, keys, BQ, BK, {}, {}};
  tiles.by_row = tiles_by_row(mask, tiles);
  tiles.by_column = tiles_by_column(tiles.by_row, B * H, tiles.rows(), tiles.columns());
  return {tiles, mask};
}

// Calls visit(key, n, kind) for the tiles of a line of by_row that lie in [begin, end). Full
// neighbours are joined, for longer products, but never across begin + a multiple of `most`.
template <class Visit>
void each_run(const BlockTiles& t, int line, int begin, int end, int64_t most, Visit visit) {
  const auto& [first, at, kind] = t.by_row;
  for (int i = first[line], next; i < first[line + 1]; i = next) {
    next = i + 1;
    const int key = at[i] * t.BK;
    if (key < begin || key >= end) continue;
    while (next < first[line + 1] && at[next] == at[next - 1] + 1 && at[next] * t.BK < end &&
           kind[i] == TileKind::full && kind[next] == TileKind::full &&
           (at[next] * t.BK - begin) % most != 0)
      ++next;
    visit(key, std::min((at[next - 1] + 1) * t.BK, t.keys) - key, kind[i]);
  }
}

// ---- counts ------------------------------------------------------------------------------------

inline int64_t count_tiles(const BlockTiles& t, TileKind kind) {
  return std::count(t.by_row.kind.begin(), t.by_row.kind.end(), kind);
}
inline int64_t count_tiles(const BlockTiles& t) { return static_cast<int64_t>(t.by_row.at.size()); }

// Scores in tiles that are not empty, those that the mask hides included; of all B H masks.
inline int64_t computed_scores(const BlockTiles& t) {
  int64_t scores = 0;
  for (int line = 0; line < t.B * t.H * t.rows(); ++line) {
    const int row = line % t.rows(), height = std::min(t.BQ, t.queries - row * t.BQ);
    for (int i = t.by_row.first[line]; i < t.by_row.first[line + 1]; ++i)
      scores += int64_t{height} * std::min(t.BK, t.keys - t.by_row.at[i] * t.BK);
  }
  return scores;
}

// Square tiles of a sequence of n of them: all before the diagonal, and the diagonal.
constexpr int64_t causal_tiles(int64_t n) { return n * (n + 1) / 2; }
// A window of w whole tiles: its oldest key is w tiles back, so w + 1 tiles of each row that is not
// one of the first w.
constexpr int64_t window_tiles(int64_t n, int64_t w) {
  return w >= n ? causal_tiles(n) : causal_tiles(w) + (n - w) * (w + 1);
}

}  // namespace yotta
