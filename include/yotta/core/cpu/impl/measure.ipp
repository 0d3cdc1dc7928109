// The bodies of core/cpu/measure.hpp.
#pragma once

#include "yotta/core/cpu/measure.hpp"

namespace yotta {

namespace detail {
template <class Number>
double matmul_gflops_of(int threads, double seconds_budget, int64_t size) {
  const std::vector<Number> a(static_cast<size_t>(size * size), Number(1.0f)), b(a);
  std::vector<float> c(a.size());
  const double seconds = shortest_seconds(seconds_budget, [&] {
    matmul(row_major(a.data(), size, size), row_major(b.data(), size, size),
           row_major(c.data(), size, size), Into::overwrite, threads);
  });
  return matmul_flops(size, size, size) / seconds * 1e-9;
}
}  // namespace detail

YOTTA_INLINE double measure_matmul_gflops(int threads, double seconds_budget, int64_t size,
                                          DType factors) {
  return factors == DType::bf16 ? detail::matmul_gflops_of<bfloat16>(threads, seconds_budget, size)
                                : detail::matmul_gflops_of<float>(threads, seconds_budget, size);
}

YOTTA_INLINE double measure_memory_gbps(int threads, double seconds_budget, int64_t array_bytes) {
  const int64_t count = array_bytes / static_cast<int64_t>(sizeof(float));
  std::vector<float> x(static_cast<size_t>(count), 1.0f), y(x), z(x);
  RankContext rank;
  rank.threads = threads;
  const ContextScope scope(rank);
  const double seconds = shortest_seconds(seconds_budget, [&] {
    parallel_for(count, 1 << 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        x[static_cast<size_t>(i)] = y[static_cast<size_t>(i)] + 3.0f * z[static_cast<size_t>(i)];
    });
  });
  return 3.0 * static_cast<double>(count) * sizeof(float) / seconds * 1e-9;
}

}  // namespace yotta
