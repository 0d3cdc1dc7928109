// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/matmul_register_tiles.hpp"

#include "device/matmul_cases.hpp"

using namespace yotta;

namespace {

template <int BM, int BN, int BK, int TM>
void check_column() {
  yotta_test::check_matmul("column", [](auto a, auto b, auto c, int m, int n, int k) {
    launch(matmul_register_column<BM, BN, BK, TM>,
           {static_cast<unsigned>((n + BN - 1) / BN), static_cast<unsigned>((m + BM - 1) / BM)},
           BM * BN / TM, 0, nullptr, a, b, c, m, n, k);
  });
}

template <int BM, int BN, int BK, int TM, int TN>
void check_tile() {
  yotta_test::check_matmul("tile", [](auto a, auto b, auto c, int m, int n, int k) {
    launch(matmul_register_tile<BM, BN, BK, TM, TN>,
           {static_cast<unsigned>((n + BN - 1) / BN), static_cast<unsigned>((m + BM - 1) / BM)},
           BM * BN / (TM * TN), 0, nullptr, a, b, c, m, n, k);
  });
}

}  // namespace

TEST_CASE("a column of sums per thread, tiles of several shapes") {
  check_column<16, 16, 8, 4>();
  check_column<32, 64, 4, 8>();
  check_column<8, 16, 16, 1>();
}

TEST_CASE("a tile of sums per thread, tiles of several shapes") {
  check_tile<16, 16, 8, 4, 4>();
  check_tile<32, 64, 4, 8, 2>();
  check_tile<64, 32, 16, 4, 8>();
}

TEST_CASE("shared bytes: 4 a FLOP without register tiles, half a byte with 8 x 8") {
  const double flops = matmul_flops(256, 256, 256);
  const auto loaded = [](int TM, int TN) {
    return bytes_loaded(256, 256, 256, {64, 64, 8, TM, TN});
  };
  CHECK(loaded(1, 1).shared / flops == 4);
  CHECK(loaded(8, 1).shared / flops == 2.25);
  CHECK(loaded(8, 8).shared / flops == 0.5);
  CHECK(loaded(8, 8).shared / flops == tile_bytes_per_flop(8, 8));
  CHECK(loaded(8, 8).global / flops == tile_bytes_per_flop(64, 64));
}

TEST_CASE("bytes at the edges: memory is read inside of the matrices, tiles are multiplied whole") {
  const LoadedBytes bytes = bytes_loaded(65, 70, 9, {64, 32, 8, 8, 4});
  CHECK(bytes.global == 4 * (65 * 9 * 3 + 9 * 70 * 2));
  CHECK(bytes.shared == 4 * (128 * 96 * 16) * 12 / 32);
}
