// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/matmul_kernels.hpp"

#include "device/matmul_cases.hpp"

using namespace yotta;

TEST_CASE("one thread per number: both layouts of threads give the serial result") {
  const auto blocks = [](int size) { return static_cast<unsigned>((size + 7) / 8); };
  yotta_test::check_matmul("uncoalesced", [&](auto a, auto b, auto c, int m, int n, int k) {
    launch(matmul_uncoalesced<8>, {blocks(m), blocks(n)}, {8, 8}, 0, nullptr, a, b, c, m, n, k);
  });
  yotta_test::check_matmul("coalesced", [&](auto a, auto b, auto c, int m, int n, int k) {
    launch(matmul_coalesced<8>, {blocks(n), blocks(m)}, {8, 8}, 0, nullptr, a, b, c, m, n, k);
  });
}

TEST_CASE("k = 0 writes zeros over what was there") {
  DeviceArray<float> c(4);  // NaN
  launch(matmul_coalesced<8>, 1, {8, 8}, 0, nullptr, nullptr, nullptr, c.data(), 2, 2, 0);
  CHECK(c.to_host() == std::vector<float>(4, 0.0f));
}
