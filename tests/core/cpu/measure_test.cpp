#include "yotta/core/cpu/measure.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace yotta;

TEST_CASE("rates are positive finite numbers") {
  for (const int threads : {1, 2}) {
    const double matmul_rate = measure_matmul_gflops(threads, 0, 96);
    const double bf16_rate = measure_matmul_gflops(threads, 0, 96, DType::bf16);
    const double memory_rate = measure_memory_gbps(threads, 0, 1 << 20);
    CHECK_UNARY(std::isfinite(matmul_rate) && matmul_rate > 0);
    CHECK_UNARY(std::isfinite(bf16_rate) && bf16_rate > 0);
    CHECK_UNARY(std::isfinite(memory_rate) && memory_rate > 0);
  }
}

TEST_CASE("at least a warm-up and three tries, whatever the budget") {
  int calls = 0;
  CHECK_UNARY(shortest_seconds(0, [&] { ++calls; }) > 0);
  CHECK(calls == 4);
}

TEST_CASE("batches grow until their ends do not count, and the shortest is taken") {
  int batches = 0, calls_of_last = 0;
  double spent = 0;
  const auto seconds_of = [&](int calls) {  // 10 us a call, 20 at the ends; one in three is slow
    calls_of_last = calls;
    const double seconds = 20e-6 + calls * (++batches % 3 == 0 ? 15e-6 : 10e-6);
    spent += seconds;
    return seconds;
  };
  const double found = shortest_of_batches(0.1, seconds_of);
  CHECK(calls_of_last >= 256);
  CHECK(found > 10e-6);
  CHECK(found < 10.1e-6);
  CHECK(spent > 0.1);
  CHECK(spent < 0.15);
}

TEST_CASE(
    "a long call is a batch of its own, at least three times; a clock that stands still ends") {
  std::vector<int> batches;
  const auto long_call = [&](int calls) {
    batches.push_back(calls);
    return 0.25 * calls;
  };
  CHECK(shortest_of_batches(0.1, long_call) == 0.25);
  CHECK(batches == std::vector<int>{1, 1, 1, 1, 1});
  CHECK(shortest_of_batches(0.01, [](int) { return 0.0; }) == 1e-9);
}
