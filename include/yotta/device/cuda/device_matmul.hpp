// Matmul of matrices on Device::cuda: its operands, and the slot of its implementation.
//
//     op (g++) ──► device_matmul()(a, b, c, into) ──► cuBLAS         cublas_matmul.hpp, the default
//                                                └──► the course's  strided_matmul.hpp, on request
//
// A DeviceMatrix is a MatrixView (core/matrix_view.hpp) whose type is known at run time only.
#pragma once

#include "yotta/core/dtype.hpp"
#include "yotta/core/matrix_view.hpp"
#include "yotta/core/system/accelerator.hpp"

namespace yotta {

struct DeviceMatrix {
  void* data;
  DType dtype;
  int64_t rows, cols;
  int64_t row_stride, col_stride;  // in elements; one of them is 1
};
constexpr DeviceMatrix transposed(const DeviceMatrix& x) {
  return {x.data, x.dtype, x.cols, x.rows, x.col_stride, x.row_stride};
}

// The same product for a library that stores matrices by columns (cuBLAS, Fortran's BLAS). It reads
// our row-major X as X', so it multiplies B' (n, k) by A' (k, m) and gets C' (n, m), which is our
// C:
//
//     ours  C = A B, row-major          theirs  C' = B' A', column-major
//
// `transpose`: the library must transpose what it reads; `leading`: how far its columns lie apart.
struct ColumnMajorMatrix {
  void* data;
  bool transpose;
  int leading;
  constexpr explicit ColumnMajorMatrix(const DeviceMatrix& x)
      : data(x.data),
        transpose(x.col_stride != 1),
        leading(static_cast<int>(transpose ? x.col_stride : x.row_stride)) {}
};
struct ColumnMajorProduct {
  int m, n, k;                            // as the library names them
  ColumnMajorMatrix left, right, result;  // (m, k), (k, n), (m, n) as it reads them
};
constexpr ColumnMajorProduct in_columns(const DeviceMatrix& a, const DeviceMatrix& b,
                                        const DeviceMatrix& c) {
  return {static_cast<int>(c.cols), static_cast<int>(c.rows), static_cast<int>(a.cols),
          ColumnMajorMatrix(b),     ColumnMajorMatrix(a),     ColumnMajorMatrix(c)};
}

// C (m, n) = A (m, k) B (k, n), or C += A B. A and B of one type: f64, f32 or bf16; C f64 for the
// first, else f32 or bf16, sums in f32 and rounded once.
using DeviceMatmul = void (*)(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c,
                              Into into, Where where);
inline DeviceMatmul& device_matmul() {
  static DeviceMatmul one = nullptr;
  return one;
}

}  // namespace yotta
