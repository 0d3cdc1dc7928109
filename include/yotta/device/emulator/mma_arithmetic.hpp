// One mma instruction on the CPU: the fragments of 32 lanes are put together to matrices,
// multiplied, and the product is handed back to the lanes.
//
//     registers of 32 lanes         matrices                   registers of 32 lanes
//     a: 4 words each   --gather--> A (16, 16)
//     b: 2 words each   --gather--> B (16, 8)    D = A B + C   --scatter--> d: 4 floats each
//     c: 4 floats each  --gather--> C (16, 8)
//
// Numbers: the product of two 8- or 16-bit floats, or of two tf32, fits f32 exactly (11 + 11 bits
// are less than 24), so only sums are rounded: in f32, in the order of k. A GPU adds in an order of
// its own and with a few bits more or less ("at least single precision" says the PTX ISA), so
// results agree to rounding, and exactly where the sums are exact. tf32 inputs lose their last 13
// bits, as the hardware ignores them; s8 sums wrap around; f64 is fused multiply-add after fused
// multiply-add.
//
// References: PTX ISA, mma: "Floating point operations", "Integer operations".
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "yotta/core/dtype.hpp"
#include "yotta/device/mma_fragments.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// An f32 of which a tensor core sees sign, exponent and 10 bits of mantissa.
struct Tf32 {
  uint32_t bits = 0;
  explicit constexpr operator float() const { return std::bit_cast<float>(bits & 0xffffe000u); }
};

// What an instruction sums in, and what a register holds, for each type of input.
template <class Input>
using MmaSum = std::conditional_t<std::is_same_v<Input, double>, double,
                                  std::conditional_t<std::is_integral_v<Input>, int32_t, float>>;
template <class Input>
using MmaRegister = std::conditional_t<std::is_same_v<Input, double>, double, uint32_t>;

// Element i of a lane's registers: the first in the lowest bits of register 0.
template <class Input>
YOTTA_UNSEEN MmaSum<Input> element_of(const MmaRegister<Input>* registers, int i) {
  if constexpr (std::is_same_v<Input, double>) {
    return registers[i];
  } else {
    using Bits = std::conditional_t<sizeof(Input) == 1, uint8_t,
                                    std::conditional_t<sizeof(Input) == 2, uint16_t, uint32_t>>;
    constexpr int per = 4 / sizeof(Input);
    const uint32_t word = registers[i / per] >> (8 * static_cast<int>(sizeof(Input)) * (i % per));
    return static_cast<MmaSum<Input>>(std::bit_cast<Input>(static_cast<Bits>(word)));
  }
}

// Row-major D (m, n) = A (m, k) B (k, n) + C (m, n): what every instruction computes.
template <class Sum>
YOTTA_UNSEEN void multiply_accumulate(int m, int n, int k, const Sum* a, const Sum* b, const Sum* c,
                                      Sum* d) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) d[i * n + j] = c[i * n + j];
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j) {
        const Sum x = a[i * k + l], y = b[l * n + j];
        Sum& sum = d[i * n + j];
        if constexpr (std::is_same_v<Sum, double>)
          sum = std::fma(x, y, sum);
        else if constexpr (std::is_same_v<Sum, int32_t>)
          sum = static_cast<int32_t>(int64_t{sum} + int64_t{x} * y);  // wraps around
        else
          sum += x * y;  // the product is exact
      }
  }
}

// The registers that one lane brings to an instruction, and where its results go.
template <class Input>
struct MmaLane {
  const MmaRegister<Input>*a = nullptr, *b = nullptr;  // a_elements and b_elements, packed
  const MmaSum<Input>* c = nullptr;                    // c_elements
  MmaSum<Input>* d = nullptr;                          // c_elements; may be c
};

// Runs one instruction for the 32 lanes of a warp.
template <class Shape, class Input>
YOTTA_UNSEEN void run_mma(const MmaLane<Input> (&lanes)[32]) {
  using Sum = MmaSum<Input>;
  Sum a[Shape::products][Shape::m * Shape::k], b[Shape::products][Shape::k * Shape::n];
  Sum c[Shape::products][Shape::m * Shape::n], d[Shape::products][Shape::m * Shape::n];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < Shape::a_elements; ++i) {
      const MatrixCell at = Shape::a(lane, i);
      a[at.matrix][at.row * Shape::k + at.column] = element_of<Input>(lanes[lane].a, i);
    }
    for (int i = 0; i < Shape::b_elements; ++i) {
      const MatrixCell at = Shape::b(lane, i);
      b[at.matrix][at.row * Shape::n + at.column] = element_of<Input>(lanes[lane].b, i);
    }
    for (int i = 0; i < Shape::c_elements; ++i) {
      const MatrixCell at = Shape::c(lane, i);
      c[at.matrix][at.row * Shape::n + at.column] = lanes[lane].c[i];
    }
  }
  for (int p = 0; p < Shape::products; ++p)
    multiply_accumulate(Shape::m, Shape::n, Shape::k, a[p], b[p], c[p], d[p]);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < Shape::c_elements; ++i) {
      const MatrixCell at = Shape::c(lane, i);
      lanes[lane].d[i] = d[at.matrix][at.row * Shape::n + at.column];
    }
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
