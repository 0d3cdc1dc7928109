// mma fragments: which lane of a warp holds which element of the small matrices that a tensor core
// multiplies.
//
// A tensor core instruction, D = A B + C on matrices of 16 x 8 or so, belongs to a whole warp: the
// matrices lie in the registers of its 32 lanes, each lane holding a few elements, its fragment.
// One picture explains them all. A block is 8 rows of 16 bytes; lane 4g + t holds the t-th four
// bytes of row g, one register:
//
//                 bytes 0-3     4-7      8-11    12-15
//        row 0  |  lane 0  | lane 1  | lane 2  | lane 3  |
//        row 1  |  lane 4  | lane 5  | lane 6  | lane 7  |  g = lane / 4  (the group, a row)
//          ...  |   ...    |         |         |         |  t = lane % 4  (the thread in the group)
//        row 7  |  lane 28 | lane 29 | lane 30 | lane 31 |
//
// and a matrix is a few blocks, one register each: rows 0-7, rows 8-15, then the next columns.
//
//     A (16 x k)               B (k x 8), stored by columns       C and D (16 x 8), always so
//     +---------+---------+    a block is 8 columns of B, so      +-------+
//     | block 0 | block 2 |    lane 4g + t holds column g         | c0 c1 |  row g, cols 2t, 2t+1
//     +---------+---------+    +---------+---------+              +-------+
//     | block 1 | block 3 |    | block 0 | block 1 | (transposed) | c2 c3 |  row g + 8, the same
//     +---------+---------+    +---------+---------+              +-------+
//
// Four bytes are one tf32, two f16 or bf16, four s8 or fp8: that alone distinguishes the shapes.
// (f64 has blocks of 8 rows of four 8-byte elements.) Volta's m8n8k4 is different: four small
// products at once, one for each quad pair, lanes 4q to 4q + 3 with lanes 16 + 4q to 16 + 4q + 3.
//
// Cost: an m x n x k instruction is 2 m n k FLOPs, and reads its operands from registers alone.
// References: PTX ISA, "Matrix multiply-accumulate operation using mma instruction", its figures.
#pragma once

#include <cstdint>

#include "yotta/device/emulator/device_build.hpp"

// As in cuda_builtins.hpp; these maps need nothing else of the emulator.
#if !defined(__CUDACC__)
#define __host__
#define __device__
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// Where an element lies: row and column in its matrix; `matrix` counts Volta's four products.
struct MatrixCell {
  int row = 0, column = 0, matrix = 0;
  constexpr bool operator==(const MatrixCell&) const = default;
};

__host__ __device__ constexpr MatrixCell transposed(MatrixCell cell) {
  return {cell.column, cell.row, cell.matrix};
}

// Element i of `lane` in a matrix of blocks: `per` adjacent elements per lane and block,
// blocks_down blocks (of 8 rows) below each other before the next columns begin.
template <int per, int blocks_down>
__host__ __device__ constexpr MatrixCell cell_of_blocks(int lane, int i) {
  const int g = lane / 4, t = lane % 4, block = i / per;
  return {g + 8 * (block % blocks_down), per * t + i % per + 4 * per * (block / blocks_down)};
}

// mma.m16n8k<K> with inputs of `bytes` bytes and accumulators of four.
template <int K, int bytes>
struct M16N8 {
  static constexpr int m = 16, n = 8, k = K, products = 1;
  static constexpr int per_register = 4 / bytes;  // inputs in 32 bits
  static constexpr int a_elements = 16 * K / 32, b_elements = 8 * K / 32, c_elements = 4;

  __host__ __device__ static constexpr MatrixCell a(int lane, int i) {
    return cell_of_blocks<per_register, 2>(lane, i);  // (m, k)
  }
  __host__ __device__ static constexpr MatrixCell b(int lane, int i) {
    return transposed(cell_of_blocks<per_register, 1>(lane, i));  // (k, n)
  }
  __host__ __device__ static constexpr MatrixCell c(int lane, int i) {
    return cell_of_blocks<2, 2>(lane, i);  // (m, n)
  }
};

using M16N8K16 = M16N8<16, 2>;    // f16, bf16
using M16N8K8 = M16N8<8, 2>;      // f16, bf16
using M16N8K8Tf32 = M16N8<8, 4>;  // tf32
using M16N8K4Tf32 = M16N8<4, 4>;  // tf32
using M16N8K32 = M16N8<32, 1>;    // s8, fp8

// mma.m8n8k4 on f64.
struct M8N8K4F64 {
  static constexpr int m = 8, n = 8, k = 4, products = 1, per_register = 1;
  static constexpr int a_elements = 1, b_elements = 1, c_elements = 2;

  __host__ __device__ static constexpr MatrixCell a(int lane, int i) {
    return cell_of_blocks<1, 1>(lane, i);
  }
  __host__ __device__ static constexpr MatrixCell b(int lane, int i) {
    return transposed(cell_of_blocks<1, 1>(lane, i));
  }
  __host__ __device__ static constexpr MatrixCell c(int lane, int i) {
    return cell_of_blocks<2, 1>(lane, i);
  }
};

// Volta's mma.m8n8k4 on f16, A by rows and B by columns, accumulators in f32: four products, one
// per quad pair.
struct M8N8K4Volta {
  static constexpr int m = 8, n = 8, k = 4, products = 4, per_register = 2;
  static constexpr int a_elements = 4, b_elements = 4, c_elements = 8;

  __host__ __device__ static constexpr int pair(int lane) { return lane % 16 / 4; }
  __host__ __device__ static constexpr int upper(int lane) { return lane < 16 ? 0 : 4; }

  __host__ __device__ static constexpr MatrixCell a(int lane, int i) {
    return {lane % 4 + upper(lane), i, pair(lane)};
  }
  __host__ __device__ static constexpr MatrixCell b(int lane, int i) {
    return transposed(a(lane, i));
  }
  __host__ __device__ static constexpr MatrixCell c(int lane, int i) {
    return {(lane & 1) + (i & 2) + upper(lane), (i & 4) + (lane & 2) + (i & 1), pair(lane)};
  }
};

// FLOPs of one instruction.
template <class Shape>
constexpr int64_t mma_flops() {
  return int64_t{2} * Shape::m * Shape::n * Shape::k * Shape::products;
}

// The same as data, for code that draws, lists or checks them.
struct Fragment {
  char name;          // 'A', 'B', 'C'
  int rows, columns;  // of one matrix
  int matrices;       // 1, or Volta's 4
  int elements;       // a lane holds
  int per_register;   // of them in a register, the first in its lowest bits
  MatrixCell (*cell)(int lane, int i);
};

struct MmaShape {
  const char* name;    // m16n8k16
  const char* inputs;  // "f16, bf16"
  int m, n, k;
  Fragment a, b, c;
};

template <class Shape>
constexpr MmaShape mma_shape(const char* name, const char* inputs) {
  constexpr int m = Shape::m, n = Shape::n, k = Shape::k, p = Shape::products;
  return {name,
          inputs,
          m,
          n,
          k,
          {'A', m, k, p, Shape::a_elements, Shape::per_register, Shape::a},
          {'B', k, n, p, Shape::b_elements, Shape::per_register, Shape::b},
          {'C', m, n, p, Shape::c_elements, 1, Shape::c}};
}

inline constexpr MmaShape mma_shapes[] = {
    mma_shape<M16N8K16>("m16n8k16", "f16, bf16"),    mma_shape<M16N8K8>("m16n8k8", "f16, bf16"),
    mma_shape<M16N8K8Tf32>("m16n8k8", "tf32"),       mma_shape<M16N8K4Tf32>("m16n8k4", "tf32"),
    mma_shape<M16N8K32>("m16n8k32", "s8, fp8"),      mma_shape<M8N8K4F64>("m8n8k4", "f64"),
    mma_shape<M8N8K4Volta>("m8n8k4", "f16 (Volta)"),
};

// The lane that holds a cell of a fragment, and as which element: the inverse of Fragment::cell.
// Lane -1: none, the cell is outside.
struct Holder {
  int lane = -1, element = -1;
  constexpr bool operator==(const Holder&) const = default;
};
constexpr Holder holder_of(const Fragment& fragment, MatrixCell cell) {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < fragment.elements; ++i)
      if (fragment.cell(lane, i) == cell) return {lane, i};
  return {};
}

// Whether the 32 lanes together hold every cell exactly once.
constexpr bool is_bijective(const Fragment& fragment) {
  const int cells = fragment.rows * fragment.columns * fragment.matrices;
  if (cells != 32 * fragment.elements) return false;
  bool held[16 * 32] = {};  // the largest: A of m16n8k32
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < fragment.elements; ++i) {
      const MatrixCell at = fragment.cell(lane, i);
      const bool inside = at.row >= 0 && at.row < fragment.rows && at.column >= 0 &&
                          at.column < fragment.columns && at.matrix >= 0 &&
                          at.matrix < fragment.matrices;
      if (!inside) return false;
      bool& seen = held[(at.matrix * fragment.rows + at.row) * fragment.columns + at.column];
      if (seen) return false;
      seen = true;
    }
  return true;
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
