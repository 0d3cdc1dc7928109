// nvcc compiles this file too: on a GPU it tests the same kernels.
#include "yotta/device/cuda/body_kernels.hpp"

#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <stdexcept>

#include "support/launch_count.hpp"

using namespace yotta;
using yotta_test::LaunchCount;

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
// Rows with the same number n % places, in their order; those of the last place go nowhere.
struct KernelScatter {
  int64_t N, C, places;
  const float* x;
  float* out;  // (places, C)
  __device__ int64_t row(int64_t n) const { return n % places == places - 1 ? -1 : n % places; }
  __device__ void operator()(int64_t n, int64_t c, OneLane) const {
    float& to = out[row(n) * C + c];
    to = to / 2 + x[n * C + c];
  }
};
struct KernelTerm {
  int64_t C;
  const float* x;
  __device__ std::array<float, 2> operator()(int64_t n, int64_t c, OneLane) const {
    return {x[n * C + c], 1.0f};
  }
};
struct KernelSums {
  int64_t N;
  std::array<float*, 2> out;
  KernelTerm term;
};

#if !defined(__CUDACC__)
// A term that ends the launch.
struct KernelNoTerm {
  __device__ std::array<float, 2> operator()(int64_t, int64_t, OneLane) const {
    throw std::runtime_error("no term");
  }
};
struct KernelNoSums {
  int64_t N;
  std::array<float*, 2> out;
  KernelNoTerm term;
};
// Counts what is in use.
class CountedMemory : public CudaAccelerator {
 public:
  int64_t used = 0;
  void* allocate(int64_t bytes, Where where) override {
    used += bytes != 0;
    return CudaAccelerator::allocate(bytes, where);
  }
  void release(void* memory) noexcept override {
    used -= memory != nullptr;
    CudaAccelerator::release(memory);
  }
};
#endif

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

TEST_CASE("scatter: rows of one place are walked down in their order, by one warp") {
  add_scatter<KernelScatter>();
  for (const auto& [N, C, places] :
       {std::array<int64_t, 3>{1, 1, 2}, {70, 300, 3}, {90, 5, 40}, {33, 2, 2}, {0, 4, 2}}) {
    const std::vector<float> host = counted(N * C);
    const DeviceArray<float> x(host);
    DeviceArray<float> out(static_cast<size_t>(places * C));
    out.fill_zero();
    run_kernel("scatter", KernelScatter{N, C, places, x.data(), out.data()}, C, Where::current());
    std::vector<float> expected(out.size());
    for (int64_t n = 0; n < N; ++n)
      for (int64_t c = 0; c < C && n % places != places - 1; ++c) {
        float& to = expected[static_cast<size_t>(n % places * C + c)];
        to = to / 2 + host[static_cast<size_t>(n * C + c)];
      }
    CHECK(out.to_host() == expected);
  }
}

TEST_CASE("sums: shared by a block's warps; tall ones are cut into parts that the sizes give") {
  install_accelerator();
  add_sums<KernelSums>();
  for (const auto& [N, C] :
       {std::pair<int64_t, int64_t>{3, 1}, {5, 40}, {19, 67}, {512, 33}, {1000, 3}}) {
    const std::vector<float> host = counted(N * C);
    const DeviceArray<float> x(host);
    DeviceArray<float> sums(static_cast<size_t>(C)), ones(sums.size());
    for (DeviceArray<float>* each : {&sums, &ones}) each->fill_zero();
    run_kernel("sums", KernelSums{N, {sums.data(), ones.data()}, {C, x.data()}}, C,
               Where::current());
    const std::vector<float> total = sums.to_host(), rows = ones.to_host();
    for (int64_t c = 0; c < C; ++c) {
      float sum = 0;
      for (int64_t n = 0; n < N; ++n) sum += host[static_cast<size_t>(n * C + c)];
      CHECK(total[static_cast<size_t>(c)] == sum);
      CHECK(rows[static_cast<size_t>(c)] == static_cast<float>(N));
    }
  }
  CHECK(parts_of_rows(511, 768) == 1);
  CHECK(parts_of_rows(16384, 768) == 42);  // 42 x 24 blocks
  CHECK(parts_of_rows(16384, 50304) == 1);
  CHECK(parts_of_rows(0, 768) == 1);
}

#if !defined(__CUDACC__)
TEST_CASE("sums whose launch fails leave no memory behind") {
  CountedMemory device;
  accelerator() = &device;
  add_sums<KernelSums, KernelNoSums>();
  DeviceArray<float> x(512), sums(1), ones(1);
  run_kernel("sums", KernelSums{512, {sums.data(), ones.data()}, {1, x.data()}}, 1,
             Where::current());
  CHECK(device.used == 0);
  CHECK_THROWS_AS(
      run_kernel("sums", KernelNoSums{512, {sums.data(), ones.data()}, {}}, 1, Where::current()),
      std::runtime_error);
  CHECK(device.used == 0);
  install_accelerator();
}
#endif

TEST_CASE("several bodies by one launch: numbers and rows, more than one argument holds") {
  add_many_numbers<KernelDouble>();
  add_many_rows<KernelRow>();
  const int many = ManyBodies<KernelDouble>::most + 3;
  std::vector<DeviceArray<float>> x, y;
  const LaunchCount launches;
  {
    KernelBatch batch;
    for (int i = 0; i < many; ++i) {
      const int64_t n = 70 * (1 + i % 5);
      x.emplace_back(counted(n));
      y.emplace_back(x.back().size());
      run_together("double", KernelDouble{x.back().data(), y.back().data()}, n, Where::current());
    }
    CHECK(launches.is(0));
    batch.run(Where::current());
    batch.run(Where::current());  // nothing is left
  }
  CHECK(launches.is(2));
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<float> expected = x[i].to_host();
    for (float& each : expected) each *= 2;
    CHECK(y[i].to_host() == expected);
  }
  DeviceArray<float> rows(static_cast<size_t>(2 * 4));
  KernelBatch batch;
  for (int i = 0; i < 2; ++i)
    run_together("row", KernelRow{70, x[0].data(), rows.data() + 4 * i}, 1, Where::current());
  batch.run(Where::current());
  const std::vector<float> found = rows.to_host(), row = x[0].to_host();
  for (const size_t i : {0, 4}) CHECK(found[i] == std::accumulate(row.begin(), row.end(), 0.0f));
}
