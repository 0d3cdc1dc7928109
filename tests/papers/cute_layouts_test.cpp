// NVIDIA, CUTLASS 3, CuTe's traits of SM80's mma and its Swizzle: which lane holds what, and where
// a swizzle puts it. Lesson 04's page of layouts quotes them.
#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/mma_fragments.hpp"
#include "yotta/device/tensor_cores_tile.hpp"

using namespace yotta;

namespace {

// A dimension of a layout, its first part counted fastest.
struct CuteMode {
  std::vector<int> shape, stride;
  int operator()(int number) const {
    int sum = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      sum += number % shape[i] * stride[i];
      number /= shape[i];
    }
    return sum;
  }
  int size() const {
    int all = 1;
    for (const int each : shape) all *= each;
    return all;
  }
};
struct CuteLayout {
  CuteMode lane, element;
  int operator()(int l, int i) const { return lane(l) + element(i); }
};

constexpr int cute_swizzle(int bits, int base, int shift, int index) {
  const int mask = (1 << bits) - 1;
  return index ^ ((index >> (base + shift) & mask) << base);
}

template <int columns>
bool swizzles_as(int bits, int shift) {
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < columns; ++column) {
      const int ours = place<columns, Rows::swizzled>(row, column / 8) + column % 8;
      if (cute_swizzle(bits, 3, shift, row * columns + column) != ours) return false;
    }
  return true;
}

}  // namespace

TEST_CASE("CuTe's layouts of m16n8k16 are our fragments") {
  const CuteLayout a = {{{4, 8}, {32, 1}}, {{2, 2, 2}, {16, 8, 128}}},
                   b = {{{4, 8}, {16, 1}}, {{2, 2}, {8, 64}}},
                   c = {{{4, 8}, {32, 1}}, {{2, 2}, {16, 8}}};
  CHECK(a.element.size() == M16N8K16::a_elements);
  CHECK(b.element.size() == M16N8K16::b_elements);
  CHECK(c.element.size() == M16N8K16::c_elements);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < M16N8K16::a_elements; ++i) {
      const MatrixCell cell = M16N8K16::a(lane, i);
      CHECK(a(lane, i) == cell.row + 16 * cell.column);
    }
    for (int i = 0; i < M16N8K16::b_elements; ++i) {
      const MatrixCell cell = M16N8K16::b(lane, i);  // (k, n); CuTe's B is (n, k)
      CHECK(b(lane, i) == cell.column + 8 * cell.row);
    }
    for (int i = 0; i < M16N8K16::c_elements; ++i) {
      const MatrixCell cell = M16N8K16::c(lane, i);
      CHECK(c(lane, i) == cell.row + 16 * cell.column);
    }
  }
}

TEST_CASE("CuTe's swizzles are ours, for rows of 64, 128 and 256 bytes") {
  CHECK(swizzles_as<32>(2, 3));
  CHECK(swizzles_as<64>(3, 3));
  CHECK(swizzles_as<128>(3, 4));
  CHECK_FALSE(swizzles_as<64>(2, 3));
}

TEST_CASE("tiles of a matrix, and Morton's order, as the page says") {
  const CuteMode row = {{64, 2}, {256, 16384}}, column = {{32, 8}, {1, 32}};
  for (int i = 0; i < 128; ++i)
    for (int j = 0; j < 256; ++j) CHECK(row(i) + column(j) == i * 256 + j);
  const CuteMode z_row = {{2, 2}, {1, 4}}, z_column = {{2, 2}, {2, 8}};
  const int expected[4][4] = {{0, 2, 8, 10}, {1, 3, 9, 11}, {4, 6, 12, 14}, {5, 7, 13, 15}};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) CHECK(z_row(i) + z_column(j) == expected[i][j]);
  const CuteMode lanes = {{8, 4}, {4, 256}};
  for (int lane = 0; lane < 32; ++lane) CHECK(lanes(lane) == lane / 8 * 4 * 64 + lane % 8 * 4);
}
