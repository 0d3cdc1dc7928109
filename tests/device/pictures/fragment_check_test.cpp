#include "yotta/device/pictures/fragment_check.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/kernel.hpp"

using namespace yotta;

namespace {

// A 16 x 16 tile of A in 16-bit numbers, as lesson 04 loads it; `swapped` exchanges a[1] and a[2].
template <bool swapped>
__global__ void loads_a(const uint16_t* a, uint32_t* registers) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  for (int i = 0; i < 4; ++i) {
    const int down = swapped ? i / 2 : i % 2, right = swapped ? i % 2 : i / 2;
    const int at = (g + 8 * down) * 16 + 2 * t + 8 * right;
    registers[4 * lane + i] = a[at] | static_cast<uint32_t>(a[at + 1]) << 16;
  }
}

// A 32 x 8 tile of B in bytes, four of a column in a register; `by_rows` takes four of a row.
template <bool by_rows>
__global__ void loads_b(const uint8_t* b, uint32_t* registers) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  for (int i = 0; i < 2; ++i) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
      const int k = 16 * i + 4 * t + j;
      word |= static_cast<uint32_t>(by_rows ? b[g * 32 + k] : b[k * 8 + g]) << (8 * j);
    }
    registers[2 * lane + i] = word;
  }
}

template <class Bits, class Kernel>
std::string mistake(Kernel kernel, const Fragment& fragment) {
  const auto registers = [&](FragmentAxis axis) {
    const DeviceArray<Bits> matrix(fragment_probe<Bits>(fragment, axis));
    DeviceArray<uint32_t> all(static_cast<size_t>(32 * fragment.elements / fragment.per_register));
    launch(kernel, 1, 32, 0, nullptr, matrix.data(), all.data());
    return all.to_host();
  };
  return fragment_mistake(fragment, registers(FragmentAxis::row), registers(FragmentAxis::column));
}

}  // namespace

TEST_CASE("loads that fill the registers as mma wants them are right") {
  CHECK(mistake<uint16_t>(loads_a<false>, mma_shapes[0].a) == "");
  CHECK(mistake<uint8_t>(loads_b<false>, mma_shapes[4].b) == "");
}

TEST_CASE("an element in the wrong register is named, with both places") {
  CHECK(mistake<uint16_t>(loads_a<true>, mma_shapes[0].a) ==
        "lane 0, a[1] (bits 0 to 15) holds A(0, 8), and must hold (8, 0); (0, 8) belongs into lane "
        "0, a[2] (bits 0 to 15). 128 of 256 elements are in the wrong place");
  CHECK(mistake<uint8_t>(loads_b<true>, mma_shapes[4].b)
            .starts_with("lane 0, b[0] (bits 8 to 15) holds B(0, 1), and must hold (1, 0); (0, 1) "
                         "belongs into lane 4, b[0] (bits 0 to 7)."));
}
