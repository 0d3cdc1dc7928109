// checked: this file is compiled for the emulator's checks.
// Requests, sectors and wavefronts of access patterns whose counts are known.
#include "yotta/device/emulator/check_counters.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

namespace {

__global__ void strided(const float* x, float* y, int stride) {
  y[threadIdx.x] = x[threadIdx.x * stride];
}

template <int Columns>
__global__ void column(float* y) {
  __shared__ float tile[32][Columns];
  for (int i = 0; i < 32; ++i) tile[i][threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x][3];
}

__global__ void broadcast(float* y) {
  __shared__ float part[32];
  part[threadIdx.x] = 2.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < 32; ++i) sum += part[i];
  y[threadIdx.x] = sum;
}

template <class T>
__global__ void shared_vectors(T* y, int stride) {
  T* part = dynamic_shared<T>();
  part[threadIdx.x * stride] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x * stride];
}

// Lanes take different ways and different numbers of steps.
__global__ void out_of_step(const float* x, float* y) {
  float sum = 0.0f;
  if (threadIdx.x % 2 == 0) sum += x[threadIdx.x];
  for (unsigned i = 0; i < threadIdx.x % 4; ++i) sum += x[32 * i + threadIdx.x];
  y[threadIdx.x] = sum;
}

__global__ void many_steps(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += x[i % 32];
  y[threadIdx.x] = sum;
}

template <class... Arguments, class... Given>
std::unique_ptr<Profile> profiled(size_t bytes, void (*kernel)(Arguments...), Given... given) {
  auto profile = std::make_unique<Profile>();
  launch(kernel, 1, 32, bytes, nullptr, given...);
  return profile;
}

}  // namespace

TEST_CASE("sectors per request: 4 when coalesced, one a lane when not") {
  const DeviceArray<float> x(std::vector<float>(32 * 32, 1.0f));
  DeviceArray<float> y(32);
  for (const auto& [stride, sectors] :
       {std::pair{1, 4}, {2, 8}, {4, 16}, {8, 32}, {32, 32}, {0, 1}}) {
    const auto profile = profiled(0, strided, x.data(), y.data(), stride);
    CHECK(profile->global_reads().requests == 1);
    CHECK(profile->global_reads().sectors_per_request() == sectors);
    CHECK(profile->global_writes().sectors_per_request() == 4);
  }
  const auto shifted = profiled(0, strided, x.data() + 1, y.data(), 1);
  CHECK(shifted->global_reads().sectors_per_request() == 5);
}

TEST_CASE("a column of a tile lies in one bank, unless the rows are padded") {
  DeviceArray<float> y(32);
  const auto plain = profiled(0, column<32>, y.data());
  CHECK(plain->shared_reads().wavefronts_per_request() == 32);
  CHECK_FALSE(plain->shared_reads().conflict_free());
  CHECK(plain->shared_writes().conflict_free());
  CHECK(plain->shared_writes().requests == 32);
  const auto padded = profiled(0, column<33>, y.data());
  CHECK(padded->shared_reads().wavefronts_per_request() == 1);
  CHECK(padded->shared_reads().conflict_free());
}

TEST_CASE("lanes that read one word share it") {
  DeviceArray<float> y(32);
  const auto profile = profiled(0, broadcast, y.data());
  CHECK(profile->shared_reads().requests == 32);
  CHECK(profile->shared_reads().wavefronts == 32);
  CHECK(profile->shared_reads().bytes == 32 * 32 * 4);
}

TEST_CASE("wide accesses take two or four passes at best") {
  DeviceArray<double> y8{std::vector<double>(32, 1.0)};
  const auto doubles = profiled(32 * 8, shared_vectors<double>, y8.data(), 1);
  CHECK(doubles->shared_reads().wavefronts == 2);
  CHECK(doubles->shared_reads().conflict_free());
  DeviceArray<float4> y16{std::vector<float4>(32, make_float4(1.0f, 2.0f, 3.0f, 4.0f))};
  const auto vectors = profiled(32 * 16, shared_vectors<float4>, y16.data(), 1);
  CHECK(vectors->shared_reads().wavefronts == 4);
  CHECK(vectors->shared_reads().conflict_free());
  CHECK(vectors->global_reads().sectors_per_request() == 16);
  const auto apart = profiled(64 * 16, shared_vectors<float4>, y16.data(), 2);
  CHECK(apart->shared_reads().wavefronts == 8);
  CHECK_FALSE(apart->shared_reads().conflict_free());
}

TEST_CASE("lanes out of step: the n-th run of a line is one request") {
  const DeviceArray<float> x(std::vector<float>(128, 1.0f));
  DeviceArray<float> y(32);
  const auto profile = profiled(0, out_of_step, x.data(), y.data());
  // The first line once, with 16 lanes; the loop three times, with 24, 16 and 8.
  CHECK(profile->global_reads().requests == 4);
  CHECK(profile->global_reads().accesses == 16 + 24 + 16 + 8);
  CHECK(profile->global_reads().sectors == 16);
  CHECK(profile->global_writes().requests == 1);
}

TEST_CASE("a log that is full is read, and the lanes go on") {
  const DeviceArray<float> x(std::vector<float>(32, 1.0f));
  DeviceArray<float> y(32);
  const auto profile = profiled(0, many_steps, x.data(), y.data(), 10000);
  CHECK(profile->global_reads().requests == 10000);
  CHECK(profile->global_reads().sectors == 10000);
  CHECK(y.to_host() == std::vector<float>(32, 10000.0f));
}
