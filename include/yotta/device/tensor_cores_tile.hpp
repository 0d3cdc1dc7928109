// Tensor cores, second rung: a block of warps makes a tile of C, so that every byte read is used
// many times.
//
//     memory          shared memory, a block        registers, a warp            instruction
//     A, B            BM x BK and BK x BN           WM x 16 and 16 x WN          16 x 16 and 16 x 8
//     read once per   each element used by          each fragment used in        5.3 FLOPs per byte
//     tile of C       BN or BM products             WN/8 or WM/16 mma's
//
//     FLOPs per byte of the level above: BM BN / (BM + BN) from memory, WM WN / (WM + WN) from
//     shared memory: tile_intensity() of tensor_cores.hpp at both levels. 128 x 256 gives 85, a
//     warp's 64 x 64 gives 32.
//
// Two more ideas, each of which can be switched off, so that the emulator's counters show what it
// is worth:
//     Loads::ldmatrix   one instruction brings four 8 x 8 blocks, and transposes B on the way.
//                       Loads::words takes four loads of 32 bits for A, and for B eight of 16 bits.
//     Rows::swizzled    the 8 rows of a block lie in different banks.
//
// Swizzle: 16 bytes are a chunk; shared memory serves 8 of them at a time, one from each group of 4
// banks. Rows of 64 bytes, 4 chunks, one below the other: chunk 0 of rows 0, 2, 4, 6 lies in the
// same banks, a 4-way conflict. So row r keeps its chunk c at place c ^ (r / 2 % 4):
//
//     plain    banks 0-15  banks 16-31   swizzled   banks 0-15   banks 16-31
//     rows 0, 1   0 1 2 3    0 1 2 3      rows 0, 1   0 1 2 3     0 1 2 3
//     rows 2, 3   0 1 2 3    0 1 2 3      rows 2, 3   1 0 3 2     1 0 3 2
//     rows 4, 5   0 1 2 3    0 1 2 3      rows 4, 5   2 3 0 1     2 3 0 1
//     rows 6, 7   0 1 2 3    0 1 2 3      rows 6, 7   3 2 1 0     3 2 1 0     chunk 0: all 8 places
//
// Contract: as in tensor_cores.hpp, any m, n >= 1 and k >= 0; grid (ceil(n/BN), ceil(m/BM)), block
// Tiles::threads. Rows that are not 16-byte aligned (k or n no multiple of 8) are read element by
// element.
// References: CUTLASS, "Efficient GEMM in CUDA"; PTX ISA, ldmatrix.
#pragma once

#include "yotta/device/ldmatrix.hpp"
#include "yotta/device/tensor_cores.hpp"
#include "yotta/device/vector_types.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The sizes of a tiled kernel: a block makes BM x BN of C in steps of BK, a warp WM x WN of it.
template <int BM_, int BN_, int BK_, int WM_, int WN_>
struct Tiles {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_;
  static constexpr int threads = 32 * (BM / WM) * (BN / WN);
  static_assert(BM % WM == 0 && BN % WN == 0 && BK % 16 == 0 && WM % 16 == 0 && WN % 16 == 0);
};

enum class Loads { words, ldmatrix };
enum class Rows { plain, swizzled };

// The place of a chunk in its row, of `chunks` chunks: with it, any 8 rows below each other use all
// banks.
template <int chunks>
__host__ __device__ constexpr int swizzled(int row, int chunk) {
  constexpr int rows_a_line = chunks < 8 ? 8 / chunks : 1;  // a line: 128 bytes, all banks
  constexpr int most = chunks < 8 ? chunks - 1 : 7;
  return chunk ^ (row / rows_a_line & most);
}

// Where element (row, 8 * chunk) of a tile with rows of `columns` elements lies.
template <int columns, Rows rows>
__host__ __device__ constexpr int place(int row, int chunk) {
  return row * columns + 8 * (rows == Rows::swizzled ? swizzled<columns / 8>(row, chunk) : chunk);
}

// Elements (row, column) to (row, column + 7), zeros outside of the matrix.
__device__ inline int4 load_chunk(const Bf16Matrix& matrix, int row, int column) {
  if (matrix.columns % 8 == 0 && row < matrix.rows && column < matrix.columns)
    return *reinterpret_cast<const int4*>(matrix.data + int64_t{row} * matrix.columns + column);
  uint32_t words[4];
  for (int i = 0; i < 4; ++i)
    words[i] = packed(matrix.bits(row, column + 2 * i), matrix.bits(row, column + 2 * i + 1));
  return make_int4(static_cast<int>(words[0]), static_cast<int>(words[1]),
                   static_cast<int>(words[2]), static_cast<int>(words[3]));
}

// All threads of the block copy the tile at (row, column) into shared memory (as bits), 16 bytes
// each in turn.
template <int height, int width, Rows rows, int threads>
__device__ void copy_tile(uint16_t* tile, const Bf16Matrix& matrix, int row, int column) {
  constexpr int chunks = height * width / 8;
  for (int first = 0; first < chunks; first += threads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (i >= chunks) break;
    const int r = i / (width / 8), chunk = i % (width / 8);
    *reinterpret_cast<int4*>(tile + place<width, rows>(r, chunk)) =
        load_chunk(matrix, row + r, column + 8 * chunk);
  }
}

// The fragment of the 16 x 16 tile of A whose corner is (row, column) in shared memory.
template <int width, Loads loads, Rows rows>
__device__ void shared_a(uint32_t (&a)[4], const uint16_t* tile, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  if constexpr (loads == Loads::ldmatrix)
    ldmatrix_x4(a, tile + place<width, rows>(row + lane % 16, column / 8 + lane / 16));
  else
    for (int r = 0; r < 4; ++r) {
      const int at = place<width, rows>(row + g + 8 * (r % 2), column / 8 + r / 2) + 2 * t;
      a[r] = *reinterpret_cast<const uint32_t*>(tile + at);
    }
}

// Two fragments of B, side by side: the 16 x 16 tile whose corner is (row, column) in shared
// memory.
template <int width, Loads loads, Rows rows>
__device__ void shared_b(uint32_t (&left)[2], uint32_t (&right)[2], const uint16_t* tile, int row,
                         int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  uint32_t both[4];
  if constexpr (loads == Loads::ldmatrix)
    ldmatrix_x4_trans(both, tile + place<width, rows>(row + lane % 16, column / 8 + lane / 16));
  else
    for (int r = 0; r < 4; ++r) {
      const int l = row + 2 * t + 8 * (r % 2), chunk = column / 8 + r / 2;
      both[r] = packed(tile[place<width, rows>(l, chunk) + g],
                       tile[place<width, rows>(l + 1, chunk) + g]);
    }
  left[0] = both[0], left[1] = both[1];
  right[0] = both[2], right[1] = both[3];
}

// What a warp adds up: its part of C, in fragments.
template <class T>
using WarpSum = float[T::WM / 16][T::WN / 8][4];

// sum += this warp's rows of the tile of A times its columns of the tile of B.
template <class T, Loads loads, Rows rows>
__device__ void multiply_tiles(WarpSum<T>& sum, const uint16_t* tile_a, const uint16_t* tile_b) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / (T::BN / T::WN) * T::WM, column = warp % (T::BN / T::WN) * T::WN;
  YOTTA_UNROLL
  for (int l = 0; l < T::BK; l += 16) {
    uint32_t a[T::WM / 16][4], b[T::WN / 8][2];
    YOTTA_UNROLL
    for (int i = 0; i < T::WM / 16; ++i)
      shared_a<T::BK, loads, rows>(a[i], tile_a, row + 16 * i, l);
    YOTTA_UNROLL
    for (int j = 0; j < T::WN / 8; j += 2)
      shared_b<T::BN, loads, rows>(b[j], b[j + 1], tile_b, l, column + 8 * j);
    YOTTA_UNROLL
    for (int i = 0; i < T::WM / 16; ++i) {
      YOTTA_UNROLL
      for (int j = 0; j < T::WN / 8; ++j) mma_m16n8k16_bf16(sum[i][j], a[i], b[j], sum[i][j]);
    }
  }
}

// store_c() two numbers at a time, for an even n: a lane's pairs then begin on 8 bytes.
__device__ inline void store_c_pairs(const float (&c)[4], float* matrix, int m, int n, int row,
                                     int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  YOTTA_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int to_row = row + g + 8 * r, to_column = column + 2 * t;
    if (to_row < m && to_column < n)
      *reinterpret_cast<float2*>(matrix + static_cast<int64_t>(to_row) * n + to_column) =
          make_float2(c[2 * r], c[2 * r + 1]);
  }
}

// Writes this warp's part of the block's tile of C at (row, column).
template <class T>
__device__ void store_sum(const WarpSum<T>& sum, float* c, int m, int n, int row, int column) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  row += warp / (T::BN / T::WN) * T::WM;
  column += warp % (T::BN / T::WN) * T::WN;
  YOTTA_UNROLL
  for (int i = 0; i < T::WM / 16; ++i) {
    YOTTA_UNROLL
    for (int j = 0; j < T::WN / 8; ++j) {
      if (n % 2 == 0)
        store_c_pairs(sum[i][j], c, m, n, row + 16 * i, column + 8 * j);
      else
        store_c(sum[i][j], c, m, n, row + 16 * i, column + 8 * j);
    }
  }
}

// C = A B: copy a tile of A and one of B, multiply them, and on to the next.
template <class T, Loads loads, Rows rows>
__global__ void __launch_bounds__(T::threads)
    matmul_tile(const bfloat16* __restrict__ a, const bfloat16* __restrict__ b,
                float* __restrict__ c, int m, int n, int k) {
  __shared__ __align__(128) uint16_t tile_a[T::BM * T::BK], tile_b[T::BK * T::BN];
  const int row = static_cast<int>(blockIdx.y) * T::BM,
            column = static_cast<int>(blockIdx.x) * T::BN;
  WarpSum<T> sum = {};
  for (int l = 0; l < k; l += T::BK) {
    copy_tile<T::BM, T::BK, rows, T::threads>(tile_a, {a, m, k}, row, l);
    copy_tile<T::BK, T::BN, rows, T::threads>(tile_b, {b, k, n}, l, column);
    __syncthreads();
    multiply_tiles<T, loads, rows>(sum, tile_a, tile_b);
    __syncthreads();
  }
  store_sum<T>(sum, c, m, n, row, column);
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
