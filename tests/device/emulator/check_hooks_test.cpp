// checked: this file is compiled for the emulator's checks.
// What the hooks see: accesses of every size, whole structs and vectors, and not the host's code in the same file.
#include "yotta/device/emulator/check_hooks.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/profile.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

namespace {

template <class T>
__global__ void copy(const T* x, T* y) {
  y[threadIdx.x] = x[threadIdx.x];
}

template <class T>
__global__ void add(const T* x, T* y) {
  y[threadIdx.x] += x[threadIdx.x];
}

struct Pair {
  double a;
  float b;
};

__global__ void scale_vector(float4* x, float factor) {
  float4 v = x[threadIdx.x];
  v.x *= factor, v.y *= factor, v.z *= factor, v.w *= factor;
  x[threadIdx.x] = v;
}

__global__ void in_registers(const float* x, float* y) {
  float part[4][4];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) part[i][j] = x[4 * i + j];
  float sum = 0.0f;
  for (int step = 1; step <= 3; ++step)
    for (int i = 0; i < 4; ++i) sum += part[i][(step * i) % 4];
  *y = sum;
}

__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__global__ void reads_a_table(float* y) { y[threadIdx.x] = table[threadIdx.x % 4]; }

// The bytes that one thread's run read and wrote.
template <class T, class Kernel>
void check_bytes(Kernel kernel, int64_t read, int64_t written) {
  const DeviceArray<T> x{std::vector<T>(32)};
  DeviceArray<T> y{std::vector<T>(32)};
  const Profile profile;
  launch(kernel, 1, 32, 0, nullptr, x.data(), y.data());
  CHECK(profile.global_reads().bytes == 32 * read);
  CHECK(profile.global_writes().bytes == 32 * written);
}

}  // namespace

TEST_CASE("loads and stores of every size are seen, once each") {
  check_bytes<unsigned char>(copy<unsigned char>, 1, 1);
  check_bytes<short>(copy<short>, 2, 2);
  check_bytes<float>(copy<float>, 4, 4);
  check_bytes<double>(copy<double>, 8, 8);
  check_bytes<float>(add<float>, 8, 4);
  check_bytes<int64_t>(add<int64_t>, 16, 8);
  check_bytes<Pair>(copy<Pair>, 16, 16);
}

TEST_CASE("a vector is one access") {
  DeviceArray<float4> x{std::vector<float4>(32, make_float4(1.0f, 2.0f, 3.0f, 4.0f))};
  const Profile profile;
  launch(scale_vector, 1, 32, 0, nullptr, x.data(), 2.0f);
  CHECK(profile.global_reads().requests == 1);
  CHECK(profile.global_reads().accesses == 32);
  CHECK(profile.global_reads().bytes == 512);
  CHECK(profile.global_reads().sectors == 16);
  CHECK(profile.global_writes().requests == 1);
  const auto scaled = x.to_host();
  CHECK((scaled[31].x == 2.0f && scaled[31].w == 8.0f));
}

TEST_CASE("local arrays and the program's tables are not memory of the device") {
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0f);
  const DeviceArray<float> x(values);
  DeviceArray<float> y(1), z(32);
  const Profile profile;
  launch(in_registers, 1, 1, 0, nullptr, x.data(), y.data());
  CHECK(profile.global_reads().accesses == 16);
  CHECK(profile.shared_reads().accesses == 0);
  launch(reads_a_table, 1, 32, 0, nullptr, z.data());
  CHECK(profile.global_reads().accesses == 16);
  CHECK(z.to_host()[6] == 3.0f);
}

TEST_CASE("the host's code in a checked file runs as always") {
  const auto shared = std::make_shared<std::vector<int>>(100, 1);
  const auto again = shared;
  CHECK(std::accumulate(again->begin(), again->end(), 0) == 100);
  CHECK(shared.use_count() == 2);
}
