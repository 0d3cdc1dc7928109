// The bodies of nn/cpu/tile_matmul.hpp.
#pragma once

#include "yotta/nn/cpu/tile_matmul.hpp"

#include <array>

namespace yotta::detail {

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

template <class Real>
void multiply(MatrixView<const Real> a, MatrixView<const Real> b, MatrixView<Real> c, Into into) {
  const bool add = into == Into::accumulate;
  if (a.row_stride == 1) return multiply_tiles<1>(a, b, c, add);
  multiply_tiles<tile_pitch>(a, b, c, add);
}
YOTTA_INLINE void tile_matmul(MatrixView<const float> a, MatrixView<const float> b,
                              MatrixView<float> c, Into into) {
  multiply(a, b, c, into);
}
YOTTA_INLINE void tile_matmul(MatrixView<const double> a, MatrixView<const double> b,
                              MatrixView<double> c, Into into) {
  multiply(a, b, c, into);
}

template <class Number, class Real>
void transpose_into(MatrixView<const Number> x, Real* to, int64_t stride) {
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

YOTTA_INLINE void transpose_rows(MatrixView<const float> x, float* to, int64_t stride) {
  transpose_into(x, to, stride);
}
YOTTA_INLINE void transpose_rows(MatrixView<const double> x, double* to, int64_t stride) {
  transpose_into(x, to, stride);
}
YOTTA_INLINE void transpose_rows(MatrixView<const bfloat16> x, float* to, int64_t stride) {
  transpose_into(x, to, stride);
}

}  // namespace yotta::detail
