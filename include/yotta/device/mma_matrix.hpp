// What kernels on tensor cores share: a bf16 matrix that reads as zero outside, and two bf16 in one register.
//
//     Bf16Matrix a = {pointer, m, k};
//     a0 = packed(a.bits(row, column), a.bits(row, column + 1));       a register of a fragment
//
// Zeros outside make edges free of cases: a tile that hangs over the matrix multiplies zeros, and only storing needs a
// guard. Bits, not numbers: a kernel moves bf16 and leaves arithmetic to mma.
#pragma once

#include "yotta/core/dtype.hpp"
#include "yotta/device/kernel.hpp"

// Before a loop over registers: an array whose index is not known when nvcc compiles would lie in memory.
#if defined(__CUDACC__)
#define YOTTA_UNROLL _Pragma("unroll")
#else
#define YOTTA_UNROLL
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A bf16 matrix in global memory, row-major, with zeros around it.
struct Bf16Matrix {
  const bfloat16* data;  // (rows, columns)
  int rows, columns;

  // The 16 bits of an element; outside the matrix zero, which adds nothing to a product.
  __device__ uint32_t bits(int row, int column) const {
    if (row >= rows || column >= columns) return 0;
    return data[static_cast<int64_t>(row) * columns + column].bits;
  }
};

// Two bf16 in one register, `first` in the low half.
__device__ inline uint32_t packed(uint32_t first, uint32_t second) { return first | second << 16; }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
