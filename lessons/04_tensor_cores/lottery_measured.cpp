#include <algorithm>
#include <cmath>

#include "lottery.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/core/dot_chains.hpp"
#include "yotta/core/log_matmul.hpp"
#include "yotta/core/random.hpp"
#include "yotta/machine/hardware_lottery.hpp"

namespace yotta {

namespace {

std::vector<float> drawn(const char* name, int64_t count, double scale) {
  std::vector<float> all;
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i)
    all.push_back(static_cast<float>(scale * Random(4, name).uniform(i)));
  return all;
}

double largest_error(Points a, Points b, Points c) {
  double worst = 0;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) {
      double largest = -1e300, sum = 0;
      const auto term = [&](int64_t l) {
        return static_cast<double>(a(i, l)) + static_cast<double>(b(l, j));
      };
      for (int64_t l = 0; l < a.cols; ++l) largest = std::max(largest, term(l));
      for (int64_t l = 0; l < a.cols; ++l) sum += std::exp(term(l) - largest);
      const double error = std::abs(static_cast<double>(c(i, j)) - largest - std::log(sum));
      if (!(error <= worst)) worst = error;  // a NaN stays
    }
  return worst;
}

}  // namespace

DistanceRates measure_distances(double seconds) {
  const int64_t points = 512, k = 1024;
  const std::vector<float> x = drawn("x", points * k, 1), y = drawn("y", points * k, 1);
  std::vector<float> d(static_cast<size_t>(points * points));
  const Points a = row_major(x.data(), points, k), b = row_major(y.data(), points, k);
  const MatrixView<float> to = row_major(d.data(), points, points);
  const auto rate = [&](auto&& body) {
    return matmul_flops(points, points, k) / shortest_seconds(seconds, body);
  };
  return {rate([&] { l2_by_matmul(a, b, to); }), rate([&] { l2_term_by_term(a, b, to); }),
          rate([&] { l1_term_by_term(a, b, to); })};
}

LogMatmulRun run_log_matmul(double spread, double seconds) {
  const int64_t n = 256;
  const std::vector<float> x = drawn("a", n * n, -spread), y = drawn("b", n * n, -spread);
  std::vector<float> c(static_cast<size_t>(n * n));
  const Points a = row_major(x.data(), n, n), b = row_major(y.data(), n, n);
  const MatrixView<float> to = row_major(c.data(), n, n);
  LogMatmulRun run = {spread, 0, 0, 0, 0};
  if (seconds > 0)
    run.naive_seconds = shortest_seconds(seconds, [&] { log_matmul_naive(a, b, to); });
  run.matmul_seconds = shortest_seconds(seconds, [&] { run.again = log_matmul(a, b, to); });
  run.error = largest_error(a, b, row_major<const float>(c.data(), n, n));
  return run;
}

std::vector<DotTime> measure_dots(double seconds) {
  constexpr int64_t n = 2048;
  alignas(64) static float x[n + 64],
      y[n];  // so that no register is loaded from two lines of the cache
  std::ranges::copy(drawn("x", n, 1), x);
  std::ranges::copy(drawn("y", n, 1), y);
  const double lanes = TileShape<float>::lanes;
  using Dot = float (*)(const float*, const float*, int64_t);
  const struct {
    const char* name;
    double lanes, chains;
    Dot dot;
  } ways[] = {{"in order", 1, 1, dot_in_order},
              {"1 register", lanes, 1, dot_in_chains<1>},
              {"2 registers", lanes, 2, dot_in_chains<2>},
              {"4 registers", lanes, 4, dot_in_chains<4>},
              {"8 registers", lanes, 8, dot_in_chains<8>}};
  std::vector<DotTime> times;
  for (const auto& way : ways) {
    const Dot volatile dot = way.dot;
    const int repeats = 100;
    const double shortest = shortest_seconds(seconds, [&] {
      float sum = 0;  // where the next one begins depends on it, so that no two overlap
      for (int i = 0; i < repeats; ++i) sum = dot(x + (sum < 0 ? 64 : 0), y, n);
    });
    times.push_back({way.name, way.lanes, way.chains, shortest / repeats});
  }
  return times;
}

}  // namespace yotta
