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

TEST_CASE("the smallest tile: none smaller is compute-bound, and it is") {
  const Roofline h100 = roofline_of(chip_named("h100"), DType::f32);
  const int64_t T = smallest_tile(4096, 4096, 4096, 4, h100, 128);
  CHECK(T == 82);  // 81 x 50 < 4096 <= 81 x 51: a tile of 81 needs one more column of blocks
  const auto bound = [&](int64_t side) {
    const MatmulPrediction p = predict(4096, 4096, 4096, side, 4, h100);
    return p.bytes / h100.bandwidth <= p.flops / h100.peak;
  };
  CHECK(bound(T));
  for (int64_t side = 1; side < T; ++side) CHECK_FALSE(bound(side));
  CHECK(smallest_tile(4096, 4096, 4096, 4, h100, 81) == 0);
  CHECK(smallest_tile(64, 64, 64, 4, {1, 1e15}, 128) == 1);
}

TEST_CASE(
    "a measurement: intensity, rate, the half it stands in, and its share of the roof there") {
  const Roofline roof{100, 10};  // ridge 10
  const RooflineReading left = read_measurement(1000, 500, 100, roof);
  CHECK(left.intensity == 2);
  CHECK(left.rate == 10);
  CHECK(left.memory_bound);
  CHECK(left.of_roof == 0.5);  // of 20, not of 100
  const RooflineReading right = read_measurement(1000, 10, 40, roof);
  CHECK_FALSE(right.memory_bound);
  CHECK(right.of_roof == 0.25);
  CHECK_FALSE(read_measurement(1000, 100, 40, roof).memory_bound);  // on the ridge
}
