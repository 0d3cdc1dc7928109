// A matrix in memory, and what a matmul of such matrices costs.
//
//     element (i, j)    data[i * row_stride + j * col_stride]
//     transposed        the same data, with the strides exchanged
//
// C (m, n) = A (m, k) B (k, n) is 2 m n k floating-point operations on m k + k n + m n numbers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "yotta/core/error.hpp"

namespace yotta {

// A matrix in somebody else's memory: element (i, j) is data[i * row_stride + j * col_stride].
template <class T>
struct MatrixView {
  T* data;  // (rows, cols)
  int64_t rows, cols, row_stride, col_stride;

  T& operator()(int64_t i, int64_t j) const { return data[i * row_stride + j * col_stride]; }
};

// The same memory read as the (cols, rows) matrix; nothing moves.
template <class T>
MatrixView<T> transposed(MatrixView<T> a) {
  return {a.data, a.cols, a.rows, a.col_stride, a.row_stride};
}

// Rows one after the other in memory, `row_stride` elements apart.
template <class T>
MatrixView<T> row_major(T* data, int64_t rows, int64_t cols, int64_t row_stride) {
  return {data, rows, cols, row_stride, 1};
}
template <class T>
MatrixView<T> row_major(T* data, int64_t rows, int64_t cols) {
  return row_major(data, rows, cols, cols);
}

// The part of `x` that begins at (i, j), at most (rows, cols).
template <class T>
MatrixView<T> sub_matrix(MatrixView<T> x, int64_t i, int64_t j, int64_t rows, int64_t cols) {
  return {x.data + i * x.row_stride + j * x.col_stride, std::min(rows, x.rows - i),
          std::min(cols, x.cols - j), x.row_stride, x.col_stride};
}

enum class Into { overwrite, accumulate };  // C = A B or C += A B

// What C (m, n) = A (m, k) B (k, n) costs, and the traffic if every matrix moves through memory
// once.
constexpr double matmul_flops(int64_t m, int64_t n, int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
constexpr double matmul_bytes(int64_t m, int64_t n, int64_t k, int64_t bytes_per_element = 4) {
  const double dm = static_cast<double>(m), dn = static_cast<double>(n),
               dk = static_cast<double>(k);
  return static_cast<double>(bytes_per_element) * (dm * dk + dk * dn + dm * dn);
}
constexpr double matmul_intensity(int64_t m, int64_t n, int64_t k, int64_t bytes_per_element = 4) {
  return matmul_flops(m, n, k) / matmul_bytes(m, n, k, bytes_per_element);  // FLOPs per byte
}
// Bytes loaded per FLOP while a (tm, tn) tile of C stays put: each step of k reads tm + tn numbers
// for 2 tm tn FLOPs. Memory, caches and registers all obey it, each with its own tile.
constexpr double tile_bytes_per_flop(int64_t tm, int64_t tn, int64_t bytes_per_element = 4) {
  return static_cast<double>(bytes_per_element * (tm + tn)) / static_cast<double>(2 * tm * tn);
}

template <class A, class B, class C>
void check_matmul(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Where where) {
  if (a.cols == b.rows && a.rows == c.rows && b.cols == c.cols) return;
  fail(where,
       "matmul: a is ({}, {}), b is ({}, {}), c is ({}, {}); expected (m, k), (k, n) and (m, n). "
       "Would transposed() of one of them fit?",
       a.rows, a.cols, b.rows, b.cols, c.rows, c.cols);
}

}  // namespace yotta
