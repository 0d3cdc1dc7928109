// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/roofline_matmul.hpp"

#include "device/matmul_cases.hpp"

using namespace yotta;

TEST_CASE("the shared tile gives the serial result, whatever the tile") {
  const auto check = [](auto kernel, int T) {
    const auto blocks = [T](int size) { return static_cast<unsigned>((size + T - 1) / T); };
    yotta_test::check_matmul("shared tile", [&](auto a, auto b, auto c, int m, int n, int k) {
      const auto side = static_cast<unsigned>(T);
      launch(kernel, {blocks(n), blocks(m)}, {side, side}, 0, nullptr, a, b, c, m, n, k);
    });
  };
  check(matmul_shared_tile<1>, 1);
  check(matmul_shared_tile<8>, 8);
  check(matmul_shared_tile<32>, 32);
}

TEST_CASE("an asterisk halves the peak") {
  CHECK(dense_roofline(h100_sheet).ridge() == doctest::Approx(295.4).epsilon(1e-3));
  CHECK(dense_roofline({"dense", 989.4, false, 3.35}).ridge() ==
        doctest::Approx(295.3).epsilon(1e-3));
}

TEST_CASE("bytes: A once for each column of blocks, B once for each row, C once") {
  const Roofline roof{1e12, 1e11};
  const MatmulPrediction whole = predict(64, 64, 64, 32, 4, roof);
  CHECK(whole.flops == 2.0 * 64 * 64 * 64);
  CHECK(whole.bytes == 4 * (2 * 64 * 64 + 2 * 64 * 64 + 64 * 64));
  const MatmulPrediction edges = predict(65, 33, 7, 32, 2, roof);
  CHECK(edges.bytes == 2 * (65 * 7 * 2 + 7 * 33 * 3 + 65 * 33));
  CHECK(predict(64, 64, 64, 1, 4, roof).bytes == 4 * (2 * 64 * 64 * 64 + 64 * 64));  // no sharing
}

TEST_CASE("time is the larger of two") {
  const Roofline slow_memory{1e15, 1}, slow_units{1, 1e15};
  CHECK(predict(8, 8, 8, 8, 4, slow_memory).seconds == 4 * 3 * 64);
  CHECK(predict(8, 8, 8, 8, 4, slow_units).seconds == 2 * 512);
}
