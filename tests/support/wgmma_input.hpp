// For tests of wgmma: A in registers.
#pragma once

#include <cstdint>

#include "yotta/device/wgmma.hpp"

namespace yotta {

// What a thread holds of A (64, k), by rows.
template <class Input>
__device__ void load_registers(const Input* a, int thread, uint32_t (&registers)[4]) {
  constexpr int per_register = 4 / static_cast<int>(sizeof(Input));
  for (int i = 0; i < 4; ++i) {
    const MatrixCell at = wgmma_a_cell<Input>(thread, i * per_register);
    registers[i] = *reinterpret_cast<const uint32_t*>(a + at.row * wgmma_k<Input> + at.column);
  }
}

}  // namespace yotta
