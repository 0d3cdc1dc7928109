// checked: this file is compiled for the emulator's checks.
// Every mistake that the checks know, as a kernel that must be caught, and its cure as one that must not.
#include "yotta/device/emulator/access_checker.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/vector_types.hpp"

using namespace yotta;

namespace {

__global__ void copy(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i];  // line: copy
}

__global__ void neighbours(const float* x, float* y) {
  const int i = static_cast<int>(threadIdx.x);
  y[i] = x[i - 1] + 1.0f;  // line: neighbours
}

__global__ void beyond_shared(float* y) {
  __shared__ float part[32];
  part[threadIdx.x] = static_cast<float>(threadIdx.x);  // line: beyond shared
  __syncthreads();
  y[threadIdx.x] = part[31 - threadIdx.x % 32];
}

__global__ void beyond_dynamic(float* y) {
  float* part = dynamic_shared<float>();
  part[threadIdx.x] = 1.0f;  // line: beyond dynamic
  y[threadIdx.x] = part[threadIdx.x];
}

__global__ void reads_unwritten_shared(float* y) {
  __shared__ float part[64];
  if (threadIdx.x < 63) part[threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x];  // line: unwritten shared
}

__global__ void reads_all(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];  // line: reads all
}

__global__ void adds_to(float* y) {
  y[threadIdx.x] += 1.0f;  // line: adds
}

__global__ void reads_a_vector(const float* x, float* y, int offset) {
  const float4 v = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x + offset);  // line: vector
  y[threadIdx.x] = v.x + v.w;
}

__global__ void reads_through(const float* const* table, float* y) {
  y[threadIdx.x] = table[0][threadIdx.x];  // line: through
}

template <class... Arguments, class... Given>
std::string error(void (*kernel)(Arguments...), int blocks, int threads, size_t bytes,
                  Given... given) {
  return error_of([&] { launch(kernel, blocks, threads, bytes, nullptr, given...); });
}

}  // namespace

TEST_CASE("out of bounds of global memory") {
  const DeviceArray<float> x(std::vector<float>(100, 1.0f));
  DeviceArray<float> y(100);
  y.named("y");
  CHECK(error(copy, 2, 64, 0, x.data(), y.data(), 100) == "no error");
  const std::string message = error(copy, 2, 64, 0, x.data(), y.data(), 128);
  check_says(message, {line_at("copy"), "block (1, 0, 0)",
                       "reads 4 bytes out of bounds: global memory, element 1", "of 100",
                       "compare the index with the size"});
  const std::vector<float> more(200, 1.0f);
  const DeviceArray<float> longer(more);
  check_says(error(copy, 1, 101, 0, longer.data(), y.data(), 101),
             {"thread (100, 0, 0)", "writes 4 bytes out of bounds: y, element 100 of 100"});
  check_says(
      error(neighbours, 1, 32, 0, x.data(), y.data()),
      {line_at("neighbours"), "thread (0, 0, 0)", "4 bytes before the beginning of", "negative"});
}

TEST_CASE("rows and columns of a named matrix") {
  const DeviceArray<float> x(std::vector<float>(200, 1.0f));
  DeviceArray<float> y(65 * 3);
  y.named("C", 3);
  check_says(error(copy, 1, 196, 0, x.data(), y.data(), 196),
             {"writes 4 bytes out of bounds: C, element 195 of 195: row 65 of 65, column 0 of 3"});
}

TEST_CASE("out of bounds of shared memory") {
  DeviceArray<float> y(64);
  CHECK(error(beyond_shared, 1, 32, 0, y.data()) == "no error");
  check_says(error(beyond_shared, 1, 33, 0, y.data()),
             {line_at("beyond shared"), "thread (32, 0, 0)",
              "index 32 is out of bounds of an array of 32"});
  CHECK(error(beyond_dynamic, 1, 64, 256, y.data()) == "no error");
  check_says(
      error(beyond_dynamic, 1, 64, 252, y.data()),
      {line_at("beyond dynamic"), "thread (63, 0, 0)", "dynamic shared memory, element 63 of 63"});
  check_says(error(beyond_dynamic, 1, 1, 0, y.data()), {"dynamic shared memory, element 0 of 0"});
}

TEST_CASE("reads of what nobody has written") {
  DeviceArray<float> y(64), fresh(64);
  check_says(error(reads_unwritten_shared, 1, 64, 0, y.data()),
             {line_at("unwritten shared"), "thread (63, 0, 0)",
              "reads what nobody has written: part, element 63 of 64", "garbage"});
  CHECK(error(reads_unwritten_shared, 1, 63, 0, y.data()) == "no error");
  check_says(error(reads_all, 1, 64, 0, fresh.data(), y.data()),
             {line_at("reads all"), "reads what nobody has written", "before the launch"});
  DeviceArray<float> sums(64);
  check_says(error(adds_to, 1, 64, 0, sums.data()),
             {line_at("adds"), "reads what nobody has written"});
  sums.fill_zero();
  CHECK(error(adds_to, 1, 64, 0, sums.data()) == "no error");
  CHECK(error(adds_to, 1, 64, 0, sums.data()) == "no error");  // what a kernel wrote is written
}

TEST_CASE("a vector must begin at a multiple of its size") {
  const DeviceArray<float> x(std::vector<float>(140, 1.0f));
  DeviceArray<float> y(32);
  CHECK(error(reads_a_vector, 1, 32, 0, x.data(), y.data(), 4) == "no error");
  check_says(error(reads_a_vector, 1, 32, 0, x.data(), y.data(), 1),
             {line_at("vector"), "reads 16 bytes at an address that is no multiple of 16",
              "4 bytes too far"});
}

TEST_CASE("memory of the host is none of the device's") {
  std::vector<float> host(100000, 1.0f);
  DeviceArray<float> y(32);
  check_says(error(reads_all, 1, 32, 0, host.data(), y.data()),
             {line_at("reads all"), "no memory of the device", "DeviceArray"});
  check_says(error(reads_all, 1, 32, 0, nullptr, y.data()), {"no memory of the device"});
  const float* freed = nullptr;
  {
    const DeviceArray<float> gone(std::vector<float>(32, 1.0f));
    freed = gone.data();
  }
  check_says(error(reads_all, 1, 32, 0, freed, y.data()), {"freed memory"});
  const DeviceArray<const float*> table(std::vector<const float*>{host.data()});
  check_says(error(reads_through, 1, 32, 0, table.data(), y.data()),
             {line_at("through"), "no memory of the device"});
}

TEST_CASE("an error names the line of the launch first, and the next launch starts afresh") {
  DeviceArray<float> y(32);
  const int line = __LINE__ + 1;
  const std::string message = error_of([&] { launch(beyond_shared, 1, 40, 0, nullptr, y.data()); });
  CHECK(message.starts_with(fmt::format("access_checker_test.cpp:{}: ", line)));
  CHECK(error(beyond_shared, 1, 32, 0, y.data()) == "no error");
}
