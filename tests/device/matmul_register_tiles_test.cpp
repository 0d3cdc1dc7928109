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

TEST_CASE("a column of sums a thread, tiles of several shapes") {
  check_column<16, 16, 8, 4>();
  check_column<32, 64, 4, 8>();
  check_column<8, 16, 16, 1>();
}

TEST_CASE("a tile of sums a thread, tiles of several shapes") {
  check_tile<16, 16, 8, 4, 4>();
  check_tile<32, 64, 4, 8, 2>();
  check_tile<64, 32, 16, 4, 8>();
}

TEST_CASE("shared bytes: 4 a FLOP without register tiles, half a byte with 8 x 8") {
  const double flops = matmul_flops(256, 256, 256);
  CHECK(shared_bytes_loaded(256, 256, 256, 1, 1) / flops == 4);
  CHECK(shared_bytes_loaded(256, 256, 256, 8, 1) / flops == 2.25);
  CHECK(shared_bytes_loaded(256, 256, 256, 8, 8) / flops == 0.5);
  CHECK(shared_bytes_loaded(256, 256, 256, 8, 8) / flops == tile_bytes_per_flop(8, 8));
}
