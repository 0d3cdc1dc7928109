#include "yotta/core/matrix_view.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yotta;

TEST_CASE("transposed reads the same memory the other way; strides may skip") {
  std::vector<int> x{1, 2, 3, 4, 5, 6, 7, 8};
  const auto view = row_major(x.data(), 2, 3, 4);
  CHECK(view(1, 2) == 7);
  CHECK(transposed(view)(2, 1) == 7);
  CHECK(transposed(view).rows == 3);
  CHECK(sub_matrix(view, 1, 1, 9, 9).cols == 2);
  CHECK(sub_matrix(view, 1, 1, 9, 9)(0, 1) == 7);
}

TEST_CASE("costs") {
  CHECK(matmul_flops(2, 3, 4) == 48);
  CHECK(matmul_bytes(2, 3, 4) == 4 * (8 + 12 + 6));
  CHECK(matmul_bytes(2, 3, 4, 2) == 2 * (8 + 12 + 6));
  CHECK(matmul_intensity(1200, 1200, 1200) == doctest::Approx(200));  // n / 6 for a square in f32
  CHECK(tile_bytes_per_flop(1, 1) == 4);
  CHECK(tile_bytes_per_flop(14, 32) == doctest::Approx(0.205).epsilon(0.01));
  CHECK(matmul_flops(1 << 20, 1 << 20, 1 << 20) == 0x1p61);  // no overflow of integers
}
