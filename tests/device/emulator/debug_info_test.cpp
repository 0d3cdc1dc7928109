#include "yotta/device/emulator/debug_info.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

// In no namespace, where g++ 12 forgets the tag of a kernel in its symbol.
template <int Rows>
__global__ void in_no_namespace(float* x) {
  __shared__ float row[Rows];
  row[threadIdx.x % Rows] = x[threadIdx.x];
  x[threadIdx.x] = row[threadIdx.x % Rows];
}

namespace {

template <int Rows>
__global__ void two_arrays(float* x) {
  __shared__ float tile[Rows][33];
  __shared__ int Each[64];
  tile[threadIdx.x % Rows][1] = x[threadIdx.x];
  Each[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  x[threadIdx.x] = tile[0][1] + static_cast<float>(Each[63 - threadIdx.x]);
}

__device__ __attribute__((noinline)) float in_a_function(float x) {
  __shared__ float part[16];
  part[threadIdx.x % 16] = x;
  __syncthreads();
  return part[15];
}

__global__ void calls(float* x) { x[threadIdx.x] = in_a_function(x[threadIdx.x]); }

std::vector<std::string> names(const std::vector<SharedArray>& arrays) {
  std::vector<std::string> all;
  for (const SharedArray& each : arrays) all.push_back(each.name);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("a kernel's static arrays are found by name and size") {
  const auto* kernel = reinterpret_cast<const void*>(&two_arrays<8>);
  const Image image = image_of(kernel);
  CHECK(image.thread_variables != nullptr);
  const auto own = SharedArrays::of(image).of_kernel(image, kernel);
  CHECK(names(own) == std::vector<std::string>{"Each", "tile"});
  for (const SharedArray& each : own)
    CHECK(each.bytes == (each.name == "tile" ? 8 * 33 * 4 : 64 * 4));
}

TEST_CASE("a template of a kernel that is in no namespace is found") {
  const auto* kernel = reinterpret_cast<const void*>(&in_no_namespace<8>);
  const Image image = image_of(kernel);
  const auto own = SharedArrays::of(image).of_kernel(image, kernel);
  REQUIRE(own.size() == 1);
  CHECK(own[0].name == "row");
  CHECK(own[0].bytes == 8 * 4);
}

TEST_CASE("a kernel may use its own arrays and those of device functions, not another kernel's") {
  const auto* kernel = reinterpret_cast<const void*>(&calls);
  const Image image = image_of(kernel);
  CHECK(SharedArrays::of(image).of_kernel(image, kernel).empty());
  CHECK(names(SharedArrays::of(image).for_kernel(image, kernel)) ==
        std::vector<std::string>{"part"});
  DeviceArray<float> x{std::vector<float>(64, 1.0f)};
  CHECK_NOTHROW(launch(calls, 1, 64, 0, nullptr, x.data()));
  CHECK_NOTHROW(launch(two_arrays<8>, 1, 64, 0, nullptr, x.data()));
}

TEST_CASE("an address that is in no program has no image") {
  const Image nobody = image_of(nullptr);
  CHECK(nobody.end == 0);
  CHECK(SharedArrays::of(nobody).all().empty());
}

TEST_CASE("an instruction of another library is on no line of this program") {
  const Image image = image_of(reinterpret_cast<const void*>(&calls));
  for (const uintptr_t far : {uintptr_t{1} << 31, (uintptr_t{1} << 31) + 64, uintptr_t{1} << 46})
    CHECK(emulator::Sites(image).line_of(image.base + far).number == 0);
}

TEST_CASE("an instruction behind a kernel's code is not the kernel's") {
  const auto* kernel = reinterpret_cast<const char*>(&calls);
  const Image image = image_of(kernel);
  const SharedArrays& symbols = SharedArrays::of(image);
  CHECK(symbols.kernel_at(image, kernel + 1) == kernel);
  const auto* end = reinterpret_cast<const char*>(image.end);
  CHECK(symbols.kernel_at(image, end - 1) == end - 1);
}
