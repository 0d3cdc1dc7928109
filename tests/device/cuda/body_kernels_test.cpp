#include "yotta/device/cuda/body_kernels.hpp"

#include <doctest/doctest.h>

#include <array>
#include <numeric>

using namespace yotta;

namespace {

struct KernelDouble {
  const float* x;
  float* y;
  __device__ void operator()(int64_t i, OneLane) const { y[i] = 2 * x[i]; }
};
struct KernelRow {
  int64_t C;
  const float* x;
  float* out;  // (rows, 4)
  template <class Team>
  __device__ void operator()(int64_t n, Team team) const {
    const float* row = x + n * C;
    const auto sums = team.template sums<2>(C, [&](int64_t c, OneLane) {
      return std::array{row[c], row[c] * row[c]};
    });
    const float sum = team.sum(C, [&](int64_t c, OneLane) { return row[c]; });
    const float most = team.largest(row, C);
    team.once([&] {
      out[4 * n] = sum;
      out[4 * n + 1] = sums[0];
      out[4 * n + 2] = sums[1];
      out[4 * n + 3] = most;
    });
  }
};
struct KernelDown {
  int64_t N, C;
  const float* x;
  float* out;
  __device__ void operator()(int64_t n, int64_t c, OneLane) const {
    out[c] = 2 * out[c] + x[n * C + c];
  }
};
struct KernelTerm {
  int64_t C;
  const float* x;
  __device__ auto operator()(int64_t n, int64_t c, OneLane) const {
    return std::array{x[n * C + c], 1.0f};
  }
};
struct KernelSums {
  int64_t N;
  std::array<float*, 2> out;
  KernelTerm term;
};

std::vector<float> counted(int64_t n) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 13 % 17) - 8;
  return x;
}

}  // namespace

TEST_CASE("numbers: each thread has one, or several") {
  add_numbers<KernelDouble>();
  for (const int64_t n : {1, 255, 257, 1000}) {
    const std::vector<float> host = counted(n);
    const DeviceArray<float> x(host);
    DeviceArray<float> y(host.size());
    run_kernel("double", KernelDouble{x.data(), y.data()}, n, Where::current());
    const std::vector<float> found = y.to_host();
    bool right = true;
    for (size_t i = 0; i < host.size(); ++i) right = right && found[i] == 2 * host[i];
    CHECK(right);
  }
  CHECK(blocks_of(257, 256) == 2);
  CHECK(blocks_of(int64_t{1} << 40, 256, stepping_blocks) == stepping_blocks);
}

TEST_CASE("rows: a warp has one, its lanes add up along it") {
  add_rows_kernels<KernelRow>();
  for (const auto& [N, C] : {std::pair<int64_t, int64_t>{1, 1}, {5, 31}, {9, 70}}) {
    const std::vector<float> host = counted(N * C);
    const DeviceArray<float> x(host);
    DeviceArray<float> out(static_cast<size_t>(4 * N));
    run_kernel("row", KernelRow{C, x.data(), out.data()}, N, Where::current());
    const std::vector<float> found = out.to_host();
    for (int64_t n = 0; n < N; ++n) {
      const auto begin = host.begin() + n * C;
      const float sum = std::accumulate(begin, begin + C, 0.0f);
      const float* row = &found[static_cast<size_t>(4 * n)];
      CHECK(row[0] == sum);
      CHECK(row[1] == sum);
      CHECK(row[2] == std::inner_product(begin, begin + C, begin, 0.0f));
      CHECK(row[3] == *std::max_element(begin, begin + C));
    }
  }
}

TEST_CASE("columns: walked down in order; sums: shared by a block's warps") {
  add_columns<KernelDown>();
  add_sums<KernelSums>();
  for (const auto& [N, C] : {std::pair<int64_t, int64_t>{3, 1}, {5, 40}, {19, 67}}) {
    const std::vector<float> host = counted(N * C);
    const DeviceArray<float> x(host);
    DeviceArray<float> down(static_cast<size_t>(C)), sums(down.size()), ones(down.size());
    for (DeviceArray<float>* each : {&down, &sums, &ones}) each->fill_zero();
    run_kernel("down", KernelDown{N, C, x.data(), down.data()}, C, Where::current());
    run_kernel("sums", KernelSums{N, {sums.data(), ones.data()}, {C, x.data()}}, C,
               Where::current());
    const std::vector<float> found = down.to_host(), total = sums.to_host(), rows = ones.to_host();
    for (int64_t c = 0; c < C; ++c) {
      float ordered = 0, sum = 0;
      for (int64_t n = 0; n < N; ++n) {
        ordered = 2 * ordered + host[static_cast<size_t>(n * C + c)];
        sum += host[static_cast<size_t>(n * C + c)];
      }
      const auto at = static_cast<size_t>(c);
      CHECK(found[at] == ordered);
      CHECK(total[at] == sum);
      CHECK(rows[at] == static_cast<float>(N));
    }
  }
}
