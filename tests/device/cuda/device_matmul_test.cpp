#include "yotta/device/cuda/device_matmul.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yotta;

namespace {

// What a library that thinks in columns does: result = left right, column-major.
void multiply_columns(const ColumnMajorProduct& p) {
  const auto at = [](const ColumnMajorMatrix& x, int row, int col) -> float& {
    return static_cast<float*>(x.data)[x.transpose ? row * x.leading + col : col * x.leading + row];
  };
  for (int i = 0; i < p.m; ++i)
    for (int j = 0; j < p.n; ++j) {
      float sum = 0;
      for (int l = 0; l < p.k; ++l) sum += at(p.left, i, l) * at(p.right, l, j);
      at(p.result, i, j) = sum;
    }
}

}  // namespace

TEST_CASE("a transposed matrix is the same numbers with its sizes and strides exchanged") {
  float numbers[6] = {};
  const DeviceMatrix x{numbers, DType::f32, 2, 3, 3, 1}, y = transposed(x);
  CHECK(y.data == numbers);
  CHECK(y.rows == 3);
  CHECK(y.cols == 2);
  CHECK(y.row_stride == 1);
  CHECK(y.col_stride == 3);
}

TEST_CASE("columns never lie closer than their length, in a matrix of one column or row too") {
  float numbers[6] = {};
  const DeviceMatrix column{numbers, DType::f32, 6, 1, 1, 1}, row{numbers, DType::f32, 1, 6, 6, 1};
  CHECK(ColumnMajorMatrix(transposed(column)).leading == 6);  // dw of a layer with one output
  CHECK(ColumnMajorMatrix(column).leading == 1);
  CHECK(ColumnMajorMatrix(row).leading == 6);
  const ColumnMajorMatrix turned(transposed(row));  // (6, 1), strides 1 and 6
  CHECK(turned.leading >= (turned.transpose ? 6 : 1));
}

TEST_CASE("our product in the words of a library that thinks in columns") {
  const int m = 2, n = 3, k = 4;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 3 % 7);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 11);
  for (const bool turn_a : {false, true})
    for (const bool turn_b : {false, true}) {
      const DeviceMatrix left = turn_a ? transposed({a.data(), DType::f32, k, m, m, 1})
                                       : DeviceMatrix{a.data(), DType::f32, m, k, k, 1};
      const DeviceMatrix right = turn_b ? transposed({b.data(), DType::f32, n, k, k, 1})
                                        : DeviceMatrix{b.data(), DType::f32, k, n, n, 1};
      multiply_columns(in_columns(left, right, {c.data(), DType::f32, m, n, n, 1}));
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          float sum = 0;
          for (int l = 0; l < k; ++l)
            sum += a[static_cast<size_t>(turn_a ? l * m + i : i * k + l)] *
                   b[static_cast<size_t>(turn_b ? j * k + l : l * n + j)];
          CHECK(c[static_cast<size_t>(i * n + j)] == sum);
        }
    }
}

TEST_CASE("who multiplies is a slot; products of a batch come to it together") {
  static std::vector<size_t> seen;
  seen.clear();
  device_matmul() = [](std::span<const DeviceProduct> products, Where) {
    seen.push_back(products.size());
    for (const DeviceProduct& x : products)
      *static_cast<float*>(x.c.data) = *static_cast<float*>(x.a.data);
  };
  float from = 5, to[2] = {};
  const auto one = [](float* x) { return DeviceMatrix{x, DType::f32, 1, 1, 1, 1}; };
  launch_product({one(&from), one(&from), one(to)}, Where::current());
  CHECK(to[0] == 5);
  {
    KernelBatch together;
    for (float& each : to) launch_product({one(&from), one(&from), one(&each)}, Where::current());
    CHECK(to[1] == 0);
    together.run(Where::current());
  }
  CHECK(to[1] == 5);
  CHECK(seen == std::vector<size_t>{1, 2});
  device_matmul() = nullptr;
}
