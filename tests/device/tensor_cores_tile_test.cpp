// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/tensor_cores_tile.hpp"

#include <doctest/doctest.h>

#include <set>

#include "support/bf16_matmul.hpp"

using namespace yotta;

namespace {

using Small = Tiles<64, 64, 32, 32, 32>;    // 4 warps
using Narrow = Tiles<32, 128, 16, 16, 64>;  // rows of A of two chunks, of B of sixteen

template <class T, Loads loads, Rows rows>
std::vector<float> product(const Bf16Problem& p) {
  return p.run([&](const bfloat16* a, const bfloat16* b, float* c) {
    const auto across = static_cast<unsigned>((p.n + T::BN - 1) / T::BN);
    const auto down = static_cast<unsigned>((p.m + T::BM - 1) / T::BM);
    launch(matmul_tile<T, loads, rows>, {across, down}, T::threads, 0, nullptr, a, b, c, p.m, p.n,
           p.k);
  });
}

// Whether any 8 rows below each other, of the same chunk, lie in different groups of 4 banks.
template <int columns, Rows rows>
bool free_of_conflicts() {
  for (int chunk = 0; chunk < columns / 8; ++chunk)
    for (int first = 0; first < 64; first += 8) {
      std::set<int> groups;
      for (int r = first; r < first + 8; ++r) groups.insert(place<columns, rows>(r, chunk) / 8 % 8);
      if (groups.size() != 8) return false;
    }
  return true;
}

template <int columns>
bool keeps_every_chunk() {
  std::set<int> places;
  for (int row = 0; row < 32; ++row)
    for (int chunk = 0; chunk < columns / 8; ++chunk)
      places.insert(place<columns, Rows::swizzled>(row, chunk));
  return static_cast<int>(places.size()) == 32 * columns / 8 &&
         *places.rbegin() == 32 * columns - 8;
}

}  // namespace

TEST_CASE("every rung computes C = A B, for sizes that divide and that do not") {
  for (const auto& [m, n, k] : matmul_sizes) {
    const Bf16Problem p(m, n, k);
    check_product(p, product<Small, Loads::words, Rows::plain>(p));
    check_product(p, product<Small, Loads::ldmatrix, Rows::plain>(p));
    check_product(p, product<Small, Loads::ldmatrix, Rows::swizzled>(p));
    check_product(p, product<Small, Loads::words, Rows::swizzled>(p));
    check_product(p, product<Narrow, Loads::ldmatrix, Rows::swizzled>(p));
  }
}

TEST_CASE("swizzled rows are free of bank conflicts, plain ones only at 16 bytes") {
  CHECK(free_of_conflicts<16, Rows::swizzled>());
  CHECK(free_of_conflicts<32, Rows::swizzled>());
  CHECK(free_of_conflicts<64, Rows::swizzled>());
  CHECK(free_of_conflicts<128, Rows::swizzled>());
  CHECK(free_of_conflicts<256, Rows::swizzled>());
  CHECK(free_of_conflicts<8, Rows::plain>());
  CHECK(!free_of_conflicts<32, Rows::plain>());
  CHECK(!free_of_conflicts<64, Rows::plain>());
}

TEST_CASE("a swizzle moves chunks within their row and loses none") {
  CHECK(keeps_every_chunk<16>());
  CHECK(keeps_every_chunk<32>());
  CHECK(keeps_every_chunk<64>());
  CHECK(keeps_every_chunk<128>());
  for (int row = 0; row < 64; ++row) {
    CHECK(place<32, Rows::swizzled>(row, 0) / 32 == row);
    CHECK(swizzled<4>(row, swizzled<4>(row, 3)) == 3);
  }
}

TEST_CASE("threads and intensity of a tile") {
  CHECK(Small::threads == 128);
  CHECK(Tiles<128, 256, 32, 64, 64>::threads == 256);
  CHECK(tile_intensity(64, 64) == 32);
}
