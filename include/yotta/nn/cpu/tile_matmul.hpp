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

// One (Rows, TN) tile of C in registers, as matmul_tile; A's element (i, l) is
// a[i * RowStep + l * step].
template <int Rows, int64_t RowStep, class Real>
void tile_of_registers(const Real* a, int64_t step, const Real* b, int64_t b_stride, int64_t depth,
                       Real* c, int64_t c_stride, bool add) {
  using Register = typename TileShape<Real>::Register;
  constexpr int lanes = TileShape<Real>::lanes, N = tile_registers;
  Register sum[Rows][N] = {};
#pragma GCC unroll 4
  for (int64_t l = 0; l < depth; ++l, a += step, b += b_stride) {
    Register row[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) row[j] = load_register<Real>(b + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[i][j] += a[i * RowStep] * row[j];
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      Real* to = c + i * c_stride + j * lanes;
      store_register(to, add ? sum[i][j] + load_register<Real>(to) : sum[i][j]);
    }
}

template <class Real, int64_t RowStep, int... Row>
constexpr auto register_tiles(std::integer_sequence<int, Row...>) {
  return std::array{&tile_of_registers<Row + 1, RowStep, Real>...};
}

template <int64_t RowStep, class Real>
void multiply_tiles(MatrixView<const Real> a, MatrixView<const Real> b, MatrixView<Real> c,
                    bool add) {
  constexpr auto tile = register_tiles<Real, RowStep>(std::make_integer_sequence<int, tile_rows>{});
  constexpr int64_t TM = TileShape<Real>::TM, TN = TileShape<Real>::TN;
  for (int64_t j = 0; j < c.cols; j += TN)
    for (int64_t i = 0; i < c.rows; i += TM)
      tile[static_cast<size_t>(std::min(TM, c.rows - i) - 1)](
          &a(i, 0), a.col_stride, &b(0, j), b.row_stride, a.cols, &c(i, j), c.row_stride, add);
}

// C = A B, or C += A B. Rows of B and C are read and written up to the next whole register tile.
template <class A, class B, class Real>
void tile_matmul(MatrixView<A> a, MatrixView<B> b, MatrixView<Real> c, Into into) {
  const bool add = into == Into::accumulate;
  const MatrixView<const Real> left{a.data, a.rows, a.cols, a.row_stride, a.col_stride};
  const MatrixView<const Real> right{b.data, b.rows, b.cols, b.row_stride, b.col_stride};
  if (a.row_stride == 1) return multiply_tiles<1>(left, right, c, add);
  multiply_tiles<tile_pitch>(left, right, c, add);
}

// to (cols, rows of x), rows `stride` apart, = x'.
template <class Number, class Real>
void transpose_rows(MatrixView<const Number> x, Real* to, int64_t stride) {
  constexpr int lanes = TileShape<Real>::lanes;
  const int64_t rows = x.rows / lanes * lanes, cols = x.cols / lanes * lanes;
  for (int64_t i = 0; i < rows; i += lanes)
    for (int64_t c = 0; c < cols; c += lanes) {
      typename TileShape<Real>::Register square[lanes];
#pragma GCC unroll 32
      for (int r = 0; r < lanes; ++r) square[r] = load_register<Real>(&x(i + r, c));
      transpose_square<lanes / 2>(square, std::make_integer_sequence<int, lanes>{});
#pragma GCC unroll 32
      for (int r = 0; r < lanes; ++r) store_register(to + (c + r) * stride + i, square[r]);
    }
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t c = i < rows ? cols : 0; c < x.cols; ++c)
      to[c * stride + i] = static_cast<Real>(x(i, c));
}

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
  PaddedRows(int64_t rows, int64_t d)
      : d_(d),
        pitch_(ceil_div(d, TileShape<Real>::TN) * TileShape<Real>::TN),
        rows_(rows * pitch_) {
    std::fill_n(rows_.data(), rows * pitch_, Real{0});
  }
  template <class Number>
  explicit PaddedRows(MatrixView<Number> x) : PaddedRows(x.rows, x.cols) {
    for (int64_t i = 0; i < x.rows; ++i)
      for_lanes<Real>(d_, [&](int64_t c, auto count) {
        store(row(i) + c, load(static_cast<const Number*>(&x(i, c)), count), count);
      });
  }
  Real* row(int64_t i) const { return rows_.data() + i * pitch_; }
  MatrixView<Real> rows(int64_t begin, int64_t end) const {
    return row_major(row(begin), end - begin, d_, pitch_);
  }
  void copy_to(MatrixView<Real> x) const {
    for (int64_t i = 0; i < x.rows; ++i) std::copy_n(row(i), d_, &x(i, 0));
  }

 private:
  int64_t d_, pitch_;
  PackBuffer<Real> rows_;
};

// Scores of BQ queries and BK keys.
template <class Real>
class ScoreTile {
 public:
  Real* row(int64_t r) const { return scores_.data() + r * tile_pitch; }
  MatrixView<Real> part(int64_t rows, int64_t keys) const {
    return row_major(scores_.data(), rows, keys, tile_pitch);
  }

 private:
  PackBuffer<Real> scores_{flash_BQ * tile_pitch};
};

}  // namespace detail
}  // namespace yotta
