#include <algorithm>

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

constexpr int64_t logs = 256;  // rows and columns of each matrix of logarithms

struct LogMatrices {
  explicit LogMatrices(double spread)
      : x(drawn("a", logs * logs, -spread)), y(drawn("b", logs * logs, -spread)), z(x) {}
  Points a() const { return row_major(x.data(), logs, logs); }
  Points b() const { return row_major(y.data(), logs, logs); }
  MatrixView<float> c() { return row_major(z.data(), logs, logs); }
  std::vector<float> x, y, z;
};

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

LogMatmulRun run_log_matmul(double spread) {
  LogMatrices all(spread);
  const double begin = seconds_now();
  const int64_t again = log_matmul(all.a(), all.b(), all.c());
  return {seconds_now() - begin, again};
}

double naive_log_matmul_seconds(double spread) {
  LogMatrices all(spread);
  const double begin = seconds_now();
  log_matmul_naive(all.a(), all.b(), all.c());
  return seconds_now() - begin;
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
