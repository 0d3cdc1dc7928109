#include "yotta/core/cpu/measure.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace yotta;

TEST_CASE("rates are positive finite numbers") {
  for (const int threads : {1, 2}) {
    const double matmul_rate = measure_matmul_gflops(threads, 0, 96);
    const double memory_rate = measure_memory_gbps(threads, 0, 1 << 20);
    CHECK_UNARY(std::isfinite(matmul_rate) && matmul_rate > 0);
    CHECK_UNARY(std::isfinite(memory_rate) && memory_rate > 0);
  }
}

TEST_CASE("at least a warm-up and three tries, whatever the budget") {
  int calls = 0;
  CHECK_UNARY(shortest_seconds(0, [&] { ++calls; }) > 0);
  CHECK(calls == 4);
}
