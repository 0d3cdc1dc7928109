#include "yotta/device/mma_matrix.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"

using namespace yotta;

namespace {

// Thread i reads element (i / 4, i % 4) of a 3 x 2 matrix.
__global__ void read(const bfloat16* x, uint32_t* out) {
  const Bf16Matrix matrix = {x, 3, 2};
  const int i = static_cast<int>(threadIdx.x);
  out[i] = matrix.bits(i / 4, i % 4);
}

}  // namespace

TEST_CASE("a matrix in rows, zeros around it") {
  std::vector<bfloat16> x;
  for (const float value : {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}) x.push_back(bfloat16(value));
  const DeviceArray<bfloat16> on_device(x);
  DeviceArray<uint32_t> out(16);
  launch(read, 1, 16, 0, nullptr, on_device.data(), out.data());
  const std::vector<uint32_t> got = out.to_host();
  for (size_t i = 0; i < 16; ++i) {
    const size_t row = i / 4, column = i % 4;
    CHECK(got[i] == (row < 3 && column < 2 ? x[row * 2 + column].bits : 0u));
  }
}

TEST_CASE("the first of two lies in the low half") { CHECK(packed(0x1234, 0xabcd) == 0xabcd1234u); }
