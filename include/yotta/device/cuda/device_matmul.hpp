// Matmul of matrices on Device::cuda: its operands, and the slot of its implementation.
//
//     op (g++) ──► launch_product ─┬─► cuBLAS        cublas_matmul.hpp, the default
//                                  └─► the course's  strided_matmul.hpp, on request
//
// Products that are gathered in a KernelBatch, such as those of q, k and v, are handed over
// together: one launch where the implementation can.
//
// A DeviceMatrix is a MatrixView (core/matrix_view.hpp) whose type is known at run time only.
#pragma once

#include <algorithm>
#include <span>

#include "yotta/core/dtype.hpp"
#include "yotta/core/matrix_view.hpp"
#include "yotta/core/system/kernel_batch.hpp"

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
// `transpose`: the library must transpose what it reads; `leading`: how far its columns lie apart,
// which is never less than their length, also where there is one (the stride is then 1).
struct ColumnMajorMatrix {
  void* data;
  bool transpose;
  int leading;
  constexpr explicit ColumnMajorMatrix(const DeviceMatrix& x)
      : data(x.data),
        transpose(x.col_stride != 1),
        leading(static_cast<int>(transpose ? std::max(x.col_stride, x.rows)
                                           : std::max(x.row_stride, x.cols))) {}
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

// C (m, n) = A (m, k) B (k, n) + bias, or C += A B + bias. A and B of one type: f64, f32 or bf16; C
// f64 for the first, else f32 or bf16, sums in f32 and rounded once. C is row-major, its rows one
// after the other.
struct DeviceProduct {
  DeviceMatrix a, b, c;
  Into into = Into::overwrite;
  const void* bias = nullptr;  // (n) of C's type, added to every row; null: none
};
constexpr bool is_empty(const DeviceProduct& x) { return x.c.rows == 0 || x.c.cols == 0; }

// One product after the other. None reads what another writes; where one accumulates into the C of
// the one before it, both are terms of one sum.
using DeviceMatmul = void (*)(std::span<const DeviceProduct> products, Where where);
inline DeviceMatmul& device_matmul() {
  static DeviceMatmul one = nullptr;
  return one;
}

template <>
struct KernelOfMany<DeviceProduct> {
  static void launch(std::span<const DeviceProduct> products, std::span<const int64_t> /*items*/,
                     Where where) {
    device_matmul()(products, where);
  }
};

// The product, with those of this thread's batch if there is one.
inline void launch_product(const DeviceProduct& product, Where where) {
  if (KernelBatch* const batch = KernelBatch::here())
    batch->add(product, 1);
  else
    device_matmul()({&product, 1}, where);
}

// Number i of y (M, N) is number i % N of the bias, in a kernel.
template <class T>
struct FillRows {
  int64_t N;
  const T* bias;
  T* y;
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const { y[i] = bias[i % N]; }
};

}  // namespace yotta
