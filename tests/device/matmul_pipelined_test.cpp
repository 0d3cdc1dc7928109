// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/matmul_pipelined.hpp"

#include "device/matmul_cases.hpp"

using namespace yotta;

namespace {

template <auto kernel, int BM, int BN>
void check(const char* name) {
  yotta_test::check_matmul(name, [](auto a, auto b, auto c, int m, int n, int k) {
    launch(kernel,
           {static_cast<unsigned>((n + BN - 1) / BN), static_cast<unsigned>((m + BM - 1) / BM)},
           BM * BN / 64, 0, nullptr, a, b, c, m, n, k);
  });
}

}  // namespace

TEST_CASE("vectorised, tiles of several shapes") {
  check<matmul_vectorised<32, 64, 8>, 32, 64>("vectorised 32 x 64");
  check<matmul_vectorised<64, 32, 16>, 64, 32>("vectorised 64 x 32");
}

TEST_CASE("double-buffered, tiles of several shapes") {
  check<matmul_double_buffered<32, 64, 8>, 32, 64>("double-buffered 32 x 64");
  check<matmul_double_buffered<64, 64, 4>, 64, 64>("double-buffered 64 x 64");
}

TEST_CASE("warp tiles, one warp and several") {
  check<matmul_warp_tile<32, 64, 8>, 32, 64>("warp tile 32 x 64");
  check<matmul_warp_tile<64, 128, 8>, 64, 128>("warp tile 64 x 128");
}

TEST_CASE("k = 0 writes zeros") {
  DeviceArray<float> c(32 * 64);
  launch(matmul_warp_tile<32, 64, 8>, 1, 32, 0, nullptr, nullptr, nullptr, c.data(), 32, 64, 0);
  CHECK(c.to_host() == std::vector<float>(32 * 64, 0.0f));
}
