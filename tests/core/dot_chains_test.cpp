#include "yotta/core/dot_chains.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

std::vector<float> drawn(const char* name, int64_t n) {
  std::vector<float> all;
  for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i)
    all.push_back(static_cast<float>(Random(3, name).uniform(i)) - 0.5f);
  return all;
}

// |x . y - reference| over what rounding may do: n additions, each of half a bit of the largest
// partial sum there can be.
template <class Dot>
double error_in_bounds(Dot dot, int64_t n) {
  const std::vector<float> x = drawn("x", n), y = drawn("y", n);
  double exact = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    exact += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    size += std::abs(static_cast<double>(x[i]) * static_cast<double>(y[i]));
  }
  const double bound = 0x1p-24 * static_cast<double>(n + 1) * size;
  const double error = std::abs(static_cast<double>(dot(x.data(), y.data(), n)) - exact);
  return n == 0 ? error : error / bound;
}

}  // namespace

TEST_CASE("every number of chains gives the dot product, for sizes that divide and that do not") {
  for (const int64_t n : {0, 1, 15, 16, 63, 64, 65, 1000, 4099}) {
    CAPTURE(n);
    CHECK(error_in_bounds(dot_in_order, n) <= 1);
    CHECK(error_in_bounds(dot_in_chains<1>, n) <= 1);
    CHECK(error_in_bounds(dot_in_chains<2>, n) <= 1);
    CHECK(error_in_bounds(dot_in_chains<4>, n) <= 1);
    CHECK(error_in_bounds(dot_in_chains<8>, n) <= 1);
  }
}

TEST_CASE("a NaN anywhere is in the sum") {
  std::vector<float> x = drawn("x", 200), y = drawn("y", 200);
  for (const size_t i : {size_t{0}, size_t{77}, size_t{199}}) {
    std::vector<float> with = x;
    with[i] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(dot_in_chains<4>(with.data(), y.data(), 200)));
  }
}

TEST_CASE("cycles: latency over chains, then the multipliers or the loads") {
  const CorePace core = {.fma_latency = 4, .fmas = 2, .loads = 2};
  CHECK(dot_cycles(1024, 1, 1, core) == 4 * 1024);  // one chain of single numbers
  CHECK(dot_cycles(1024, 16, 1, core) == 4 * 64);   // one chain of registers
  CHECK(dot_cycles(1024, 16, 2, core) == 2 * 64);
  CHECK(dot_cycles(1024, 16, 4, core) == 64);  // two loads an FMA, two loads a cycle
  CHECK(dot_cycles(1024, 16, 8, core) == 64);  // more chains are of no use
  const CorePace many_loads = {.fma_latency = 4, .fmas = 2, .loads = 8};
  CHECK(dot_cycles(1024, 16, 8, many_loads) == 32);  // then the multipliers are the limit
}
