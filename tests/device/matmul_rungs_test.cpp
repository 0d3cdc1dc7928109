// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/matmul_rungs.hpp"

#include <string>

#include "device/matmul_cases.hpp"

using namespace yotta;

TEST_CASE("every rung, launched from the table, gives the serial result at every size") {
  for (const MatmulRung& rung : matmul_rungs)
    yotta_test::check_matmul(rung.name, [&](auto a, auto b, auto c, int m, int n, int k) {
      rung.run(a, b, c, m, n, k, nullptr);
    });
}

TEST_CASE("more than one block each way") {
  for (const MatmulRung& rung : matmul_rungs)
    yotta_test::check_matmul(
        rung.name, {140, 260, 40},
        [&](auto a, auto b, auto c, int m, int n, int k) { rung.run(a, b, c, m, n, k, nullptr); });
}

TEST_CASE("each rung can be at least as fast as the one before") {
  for (size_t i = 1; i < matmul_rungs.size(); ++i) {
    CHECK(matmul_rungs[i].attainable() >= matmul_rungs[i - 1].attainable());
    CHECK(matmul_rungs[i].threads() <= 1024);
  }
  CHECK(matmul_rungs[0].attainable() == doctest::Approx(0.25 / 16.5));
  CHECK(matmul_rungs[2].attainable() == doctest::Approx(0.125));
  CHECK(matmul_rungs.back().attainable() == 1);
}
