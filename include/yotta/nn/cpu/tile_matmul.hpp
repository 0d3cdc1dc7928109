// A matmul of tiles that are in the caches already: what the inner loop of flash_attention.hpp is
// made of. matmul() packs its blocks before it multiplies, which a large matrix repays many times
// and a tile of 64 by 256 does not. Here operands are copied once a head, into an order that the
// register kernel can read as it is, and products of tiles are read where the last step left them.
//
//     C (m, n) = A (m, k) B (k, n)      B, C   rows in memory, with room for whole registers
//                                       A      columns in memory (any step), or rows `tile_pitch`
//                                              apart: 13 numbers of A have fixed distances
//
//     TransposedTiles   K (T, d) as B of Q K'    [ tile 0: K' (d, BK) ][ tile 1 ] ...
//     PaddedRows        K (T, d) as B of dS K    rows of d numbers, then zeros
//     ScoreTile         S (BQ, BK)               A of S V; transposed, A of S' dO
//
// Letters: as flash_attention.hpp; TM, TN the register tile of core/matmul.hpp.
#pragma once

#include <algorithm>
#include <array>

#include "yotta/core/matrix_view.hpp"
#include "yotta/nn/cpu/vectors.hpp"

namespace yotta {

// Tiles of BQ queries by BK keys. At d = 64 on one core, 64 by 256 was the fastest of 24 shapes
// tried, from 42 by 64 to 256 by 256.
inline constexpr int64_t flash_BQ = 64, flash_BK = 256;

namespace detail {

// Numbers from one row of a tile to the next: BK and room for what hangs over. Not a multiple of
// 128, so that the rows of a column do not share a few sets of the L1 cache.
inline constexpr int64_t tile_pitch = flash_BK + 32;

// Rows [begin, end) of a matrix.
template <class T>
MatrixView<T> rows_of(MatrixView<T> x, int64_t begin, int64_t end) {
  return sub_matrix(x, begin, 0, end - begin, x.cols);
}

// C = A B, or C += A B. Rows of B and C are read and written up to the next whole register tile.
void tile_matmul(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c,
                 Into into);
void tile_matmul(MatrixView<const double> a, MatrixView<const double> b, MatrixView<double> c,
                 Into into);
template <class T>
MatrixView<const T> read_only(MatrixView<T> x) {
  return {x.data, x.rows, x.cols, x.row_stride, x.col_stride};
}

// to (cols, rows of x), rows `stride` apart, = x'.
void transpose_rows(MatrixView<const float> x, float* to, int64_t stride);
void transpose_rows(MatrixView<const double> x, double* to, int64_t stride);
void transpose_rows(MatrixView<const bfloat16> x, float* to, int64_t stride);

// X (T, d) as tiles of X' (d, BK).
template <class Real>
class TransposedTiles {
 public:
  template <class Number>
  explicit TransposedTiles(MatrixView<const Number> x)
      : d_(x.cols), tiles_(ceil_div(x.rows, flash_BK) * d_ * tile_pitch) {
    for (int64_t t = 0; t < x.rows; t += flash_BK)
      transpose_rows(sub_matrix(x, t, 0, flash_BK, d_), tile(t), tile_pitch);
  }
  // Columns [j, j + n) of X', in one tile.
  MatrixView<const Real> columns(int64_t j, int64_t n) const {
    return row_major<const Real>(tile(j) + j % flash_BK, d_, n, tile_pitch);
  }

 private:
  Real* tile(int64_t j) const { return tiles_.data() + j / flash_BK * d_ * tile_pitch; }

  int64_t d_;
  PackBuffer<Real> tiles_;
};

// X (T, d) by rows, each with zeros up to a whole register tile.
template <class Real>
class PaddedRows {
 public:
  PaddedRows(int64_t rows, int64_t d) : d_(d), rows_(rows * pitch_) {
    std::fill_n(rows_.data(), rows * pitch_, Real{0});
  }
  template <class Number>
  explicit PaddedRows(MatrixView<Number> x) : d_(x.cols), rows_(x.rows * pitch_) {
    for (int64_t i = 0; i < x.rows; ++i) {
      for_lanes<Real>(d_, [&](int64_t c, auto count) {
        store(row(i) + c, load(static_cast<const Number*>(&x(i, c)), count), count);
      });
      std::fill_n(row(i) + d_, pitch_ - d_, Real{0});
    }
  }
  Real* row(int64_t i) const { return rows_.data() + i * pitch_; }
  MatrixView<Real> rows(int64_t begin, int64_t end) const {
    return row_major(row(begin), end - begin, d_, pitch_);
  }
  MatrixView<const Real> read(int64_t begin, int64_t end) const {
    return read_only(rows(begin, end));
  }
  void copy_to(MatrixView<Real> x) const {
    for (int64_t i = 0; i < x.rows; ++i)
      for_lanes<Real>(d_, [&](int64_t c, auto count) {
        store(&x(i, c), load(static_cast<const Real*>(row(i) + c), count), count);
      });
  }

 private:
  int64_t d_, pitch_ = ceil_div(d_, TileShape<Real>::TN) * TileShape<Real>::TN;
  PackBuffer<Real> rows_;
};

// Rows that are needed soon. Each call of fetch() asks for the next one; it comes into the cache
// while other work goes on.
class RowsAhead {
 public:
  RowsAhead() = default;
  template <class T>
  explicit RowsAhead(MatrixView<T> x)
      : row_(reinterpret_cast<const char*>(x.data)),
        step_(x.row_stride * int64_t{sizeof(T)}),
        bytes_(x.cols * int64_t{sizeof(T)}),
        left_(x.rows) {}
  void fetch() {
    if (left_ <= 0) return;
    for (int64_t i = 0; i < bytes_; i += 64) __builtin_prefetch(row_ + i);
    row_ += step_;
    --left_;
  }

 private:
  const char* row_ = nullptr;
  int64_t step_ = 0, bytes_ = 0, left_ = 0;
};

// Scores of BQ queries and BK keys, and what the next tile needs: it is fetched row by row as
// softmax goes over the scores, which leaves the memory idle.
template <class Real>
class ScoreTile {
 public:
  void meanwhile(RowsAhead queries, RowsAhead results) const { ahead_ = {queries, results}; }
  void fetch_ahead() const {
    for (RowsAhead& each : ahead_) each.fetch();
  }
  Real* row(int64_t r) const { return scores_.data() + r * tile_pitch; }
  MatrixView<Real> part(int64_t rows, int64_t keys) const {
    return row_major(scores_.data(), rows, keys, tile_pitch);
  }
  MatrixView<const Real> read(int64_t rows, int64_t keys) const {
    return read_only(part(rows, keys));
  }

 private:
  PackBuffer<Real> scores_{flash_BQ * tile_pitch};
  mutable std::array<RowsAhead, 2> ahead_;
};

}  // namespace detail
}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/cpu/impl/tile_matmul.ipp"
#endif
