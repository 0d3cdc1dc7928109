// Numbers for the tests of mma: small whole ones, exact in every type of input.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "yotta/core/random.hpp"
#include "yotta/device/emulator/mma_arithmetic.hpp"

namespace yotta {

// Element `at` of operand `which`: 0 is A, 1 is B, 2 is C. From -3 to 3.
inline int whole(int which, MatrixCell at) {
  const int index = ((which * 4 + at.matrix) * 64 + at.row) * 64 + at.column;
  return static_cast<int>(Random(7, "mma").bits(static_cast<uint64_t>(index)) % 7) - 3;
}

template <class Input>
Input as(int value) {
  if constexpr (std::is_same_v<Input, Tf32>)
    return {std::bit_cast<uint32_t>(static_cast<float>(value))};
  else if constexpr (std::is_arithmetic_v<Input>)
    return static_cast<Input>(value);
  else
    return Input(static_cast<float>(value));
}

// What element (row, column) of D = A B + C is.
template <class Shape>
int expected_element(MatrixCell at) {
  int sum = whole(2, at);
  for (int l = 0; l < Shape::k; ++l)
    sum += whole(0, {at.row, l, at.matrix}) * whole(1, {l, at.column, at.matrix});
  return sum;
}

}  // namespace yotta
