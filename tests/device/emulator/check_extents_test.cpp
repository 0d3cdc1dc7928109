// checked: this file is compiled for the emulator's checks.
// Indices beyond what they index, where the address alone would look right.
#include "yotta/device/emulator/check_extents.hpp"

#include <doctest/doctest.h>

#include "support/kernel_error.hpp"
#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// The whole tile is (4, 32): 32 columns of row 0 are followed by row 1.
__global__ void beyond_a_row(float* y, int column) {
  __shared__ float tile[4][32];
  for (int row = 0; row < 4; ++row) tile[row][threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = tile[0][column];  // line: row
}

__global__ void beyond_registers(float* y, int n) {
  float sums[8] = {};
  for (int i = 0; i < n; ++i) sums[i] += 1.0f;  // line: registers
  y[threadIdx.x] = sums[0];
}

// Two arrays without a gap, whichever of them comes first.
__global__ void into_the_neighbour(float* y, bool second, int offset) {
  __shared__ float one[32], other[32];
  one[threadIdx.x] = other[threadIdx.x] = 1.0f;
  __syncthreads();
  const float* const from = second ? other : one;
  y[threadIdx.x] = from[offset];  // line: neighbour
}

// Two whole pages, the size that tiles are most often of.
__global__ void into_the_next_page(float* y, bool second, int offset) {
  __shared__ __align__(128) float one[32][32];
  __shared__ float other[32][32];
  for (int row = 0; row < 32; ++row) one[row][threadIdx.x] = other[row][threadIdx.x] = 1.0f;
  __syncthreads();
  const float* const from = second ? &other[0][0] : &one[0][0];
  y[threadIdx.x] = from[offset];  // line: page
}

__global__ void ends(float* y) {
  __shared__ float part[32];
  for (float* at = &part[0]; at != &part[32]; at += 32) at[threadIdx.x] = 1.0f;
  y[threadIdx.x] = part[threadIdx.x];
}

template <class... Arguments, class... Given>
std::string error(void (*kernel)(Arguments...), int threads, Given... given) {
  return error_of([&] { launch(kernel, 1, threads, 0, nullptr, given...); });
}

}  // namespace

TEST_CASE("a row's end is not the tile's") {
  DeviceArray<float> y(32);
  CHECK(error(beyond_a_row, 32, y.data(), 31) == "no error");
  check_says(error(beyond_a_row, 32, y.data(), 32),
             {line_at("row"), "block (0, 0, 0), thread (",
              "index 32 is out of bounds of an array of 32 ('float", "Compare the index"});
  check_says(error(beyond_a_row, 32, y.data(), -1), {line_at("row"), "index -1 is out of bounds"});
}

TEST_CASE("an array in registers has its size too") {
  DeviceArray<float> y(32);
  CHECK(error(beyond_registers, 32, y.data(), 8) == "no error");
  check_says(error(beyond_registers, 32, y.data(), 9),
             {line_at("registers"), "index 8 is out of bounds of an array of 8"});
}

TEST_CASE(
    "one __shared__ array does not run into the next, though the pointer has forgotten its size") {
  DeviceArray<float> y(32);
  for (const bool second : {false, true}) {
    const std::string name = second ? "other" : "one";
    for (const int inside : {0, 31})
      CHECK(error(into_the_neighbour, 32, y.data(), second, inside) == "no error");
    for (const int beyond : {32, 40, 63})
      check_says(error(into_the_neighbour, 32, y.data(), second, beyond),
                 {line_at("neighbour"),
                  fmt::format("reads 4 bytes out of bounds: {}, element {} of 32", name, beyond)});
    for (const int before : {-1, -32})
      check_says(
          error(into_the_neighbour, 32, y.data(), second, before),
          {line_at("neighbour"),
           fmt::format("{} bytes before the beginning of {}", -4 * before, name), "negative"});
    CHECK(error(into_the_next_page, 32, y.data(), second, 1023) == "no error");
    check_says(error(into_the_next_page, 32, y.data(), second, 1024),
               {line_at("page"), fmt::format("out of bounds: {}, element 1024 of 1024", name)});
  }
}

TEST_CASE("a pointer may point behind the last element") {
  DeviceArray<float> y(32);
  CHECK(error(ends, 32, y.data()) == "no error");
}

TEST_CASE("an index comes as bits and a note on its type") {
  using emulator::signed_index;
  CHECK(signed_index(5 << 1 | 1, 0xffffffff) == -1);
  CHECK(signed_index(5 << 1, 0xffffffff) == 0xffffffff);
  CHECK(signed_index(3 << 1 | 1, 0x80) == -128);
  CHECK(signed_index(6 << 1 | 1, ~uint64_t{0}) == -1);
}
