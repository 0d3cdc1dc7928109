// What a warp of FlashAttention-2 does: two products on tensor cores, and a softmax between them.
//
//     multiply_rows        S = Q K'     both sides from shared memory     ldmatrix, ldmatrix
//     WarpSoftmax::step    P = softmax  in the registers of S             two shuffles a row
//     multiply_registers   O += P V     left side from registers          ldmatrix.trans
//
// P never moves: the lanes that get S, which is C of the first product, hold just what the second
// wants as A. Lane 4g + t:
//
//     C for keys 0-7                 C for keys 8-15                A for keys 0-15
//     c0 c1  row g,     keys 2t, +1  c0 c1  row g,     keys 8 + 2t  a0, a2  the two row g
//     c2 c3  row g + 8, keys 2t, +1  c2 c3  row g + 8, keys 8 + 2t  a1, a3  the two row g + 8
//
// And K needs no transpose: B = K' is wanted column by column, and a column of K' is a row of K.
//
// Cost: ldmatrix takes 4 wavefronts for 16 x 16 numbers of either side, none of them a bank
// conflict, since tiles are swizzled (tensor_cores_tile.hpp). Every warp reads all of K and V: with
// 32 queries it needs one wavefront for each mma, with 16 two; and for S 32 / BK more, since it
// reads Q again for each tile of keys.
// Contract: all lanes of a warp call.
// Letters: d numbers per head; BQ queries and BK keys in a block's tiles, WQ queries of a warp; m
// the largest score of a row, l its sum of e^(s - m).
// References: Dao (2023), FlashAttention-2, section 3; PTX ISA, mma.m16n8k16.
#pragma once

#include "yotta/device/cp_async.hpp"
#include "yotta/device/tensor_cores_tile.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// A block's tiles of BQ queries and BK keys with d numbers each; a warp's WQ queries.
template <int d_, int BQ_, int BK_, int WQ_>
struct FlashWarps {
  static constexpr int d = d_, BQ = BQ_, BK = BK_, WQ = WQ_;
  static constexpr int threads = 32 * (BQ / WQ);
  static constexpr size_t shared_bytes = size_t{2} * (BQ + 2 * BK) * d;
  static_assert(BQ % WQ == 0 && WQ % 16 == 0 && BK % 16 == 0 && d % 32 == 0);
};

// ---- Rows of a head, and their way into shared memory ----

// Starts to copy rows `first` to first + height - 1 into a swizzled tile; zeros from row `rows` on.
// at(row) is where a row begins in x.
template <int height, int d, int threads, class At>
__device__ void copy_rows_async(uint16_t* tile, const bfloat16* x, int first, int rows, At at) {
  constexpr int chunks = d / 8;  // of 16 bytes, in a row
  const int thread = static_cast<int>(threadIdx.x), chunk = thread % chunks;
  YOTTA_UNROLL_BY(1)
  for (int row = thread / chunks; row < height; row += threads / chunks) {
    const bool inside = first + row < rows;
    cp_async<16>(tile + place<d, Rows::swizzled>(row, chunk),
                 x + (inside ? at(first + row) + 8 * chunk : 0), inside ? 16 : 0);
  }
}

// ---- Products of a warp ----

// The same pointer. Where registers are scarce the compiler knows nothing of it: it computes the
// tile's addresses where they are used, instead of keeping them from one tile of keys to the next.
template <bool scarce, class T>
__device__ T* computed_anew(T* tile) {
#if defined(__CUDA_ARCH__)
  if constexpr (scarce) asm volatile("" : "+l"(tile));
#endif
  return tile;
}

// Two fragments of B = X' for a 16 x 16 tile of X, whose rows lie in shared memory: no transpose is
// needed, since a fragment of B is stored by columns.
template <int d>
__device__ void shared_b_of_rows(uint32_t (&left)[2], uint32_t (&right)[2], const uint16_t* x,
                                 int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t both[4];
  ldmatrix_x4(both, x + place<d, Rows::swizzled>(row + lane / 16 * 8 + lane % 8,
                                                 column / 8 + lane / 8 % 2));
  left[0] = both[0], left[1] = both[1];
  right[0] = both[2], right[1] = both[3];
}

// s (16 down, 8 across) += X Y': rows of X from `row` on, all rows of Y, both (rows, d) in shared
// memory.
template <int d, int down, int across>
__device__ void multiply_rows(float (&s)[down][across][4], const uint16_t* x, int row,
                              const uint16_t* y) {
  YOTTA_UNROLL_BY(2)
  for (int l = 0; l < d; l += 16) {
    uint32_t a[down][4];
    YOTTA_UNROLL
    for (int i = 0; i < down; ++i)
      shared_a<d, Loads::ldmatrix, Rows::swizzled>(a[i], x, row + 16 * i, l);
    YOTTA_UNROLL
    for (int j = 0; j < across; j += 2) {
      uint32_t b[2][2];
      shared_b_of_rows<d>(b[0], b[1], y, 8 * j, l);
      YOTTA_UNROLL
      for (int i = 0; i < down; ++i) {
        mma_m16n8k16_bf16(s[i][j], a[i], b[0], s[i][j]);
        mma_m16n8k16_bf16(s[i][j + 1], a[i], b[1], s[i][j + 1]);
      }
    }
  }
}

// o (16 down, d) += P Y: P (16 down, 8 across) as multiply_rows() left it, rounded to bf16; Y
// (8 across, d) in shared memory.
template <int d, int down, int across>
__device__ void multiply_registers(float (&o)[down][d / 8][4], const float (&p)[down][across][4],
                                   const uint16_t* y) {
  YOTTA_UNROLL
  for (int l = 0; l < across; l += 2) {
    uint32_t a[down][4];
    YOTTA_UNROLL
    for (int i = 0; i < down; ++i) {
      YOTTA_UNROLL
      for (int r = 0; r < 4; ++r)
        a[i][r] = rounded_pair(p[i][l + r / 2][r % 2 * 2], p[i][l + r / 2][r % 2 * 2 + 1]);
    }
    YOTTA_UNROLL
    for (int j = 0; j < d / 8; j += 2) {
      uint32_t b[2][2];
      shared_b<d, Loads::ldmatrix, Rows::swizzled>(b[0], b[1], y, 8 * l, 8 * j);
      YOTTA_UNROLL
      for (int i = 0; i < down; ++i) {
        mma_m16n8k16_bf16(o[i][j], a[i], b[0], o[i][j]);
        mma_m16n8k16_bf16(o[i][j + 1], a[i], b[1], o[i][j + 1]);
      }
    }
  }
}

// ---- Softmax of a warp ----

// e^x = 2^(x log2(e)), and for 2^x a GPU has an instruction. It takes results below 2^-126 for 0.
inline constexpr float log2_of_e = 1.44269504f;
__device__ inline float power_of_2(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// The largest of, and the sum over, the four lanes that hold a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// A warp's running softmax: a lane has rows g and g + 8 of each 16, as in mma's C.
template <class T>
struct WarpSoftmax {
  static constexpr int down = T::WQ / 16;
  float m[down][2], l[down][2];  // l: of this lane's columns alone, until the end
  float o[down][T::d / 8][4];

  __device__ WarpSoftmax() {
    YOTTA_UNROLL
    for (int i = 0; i < down; ++i) {
      m[i][0] = m[i][1] = -INFINITY;
      l[i][0] = l[i][1] = 0;
      YOTTA_UNROLL
      for (int j = 0; j < T::d / 8; ++j) o[i][j][0] = o[i][j][1] = o[i][j][2] = o[i][j][3] = 0;
    }
  }

  // S becomes P = 2^(factor (s - m)); what was summed before is made worth less.
  __device__ void step(float (&s)[down][T::BK / 8][4], float factor) {
    YOTTA_UNROLL
    for (int i = 0; i < down; ++i) {
      YOTTA_UNROLL
      for (int r = 0; r < 2; ++r) {
        float larger = m[i][r];
        YOTTA_UNROLL
        for (int j = 0; j < T::BK / 8; ++j)
          larger = fmaxf(larger, fmaxf(s[i][j][2 * r], s[i][j][2 * r + 1]));
        larger = row_max(larger);
        const float top = larger == -INFINITY ? 0 : larger * factor;  // nothing seen yet: all are 0
        const float still_worth = power_of_2(m[i][r] * factor - top);
        m[i][r] = larger;
        l[i][r] *= still_worth;
        YOTTA_UNROLL
        for (int j = 0; j < T::BK / 8; ++j) {
          YOTTA_UNROLL
          for (int e = 2 * r; e < 2 * r + 2; ++e)
            l[i][r] += s[i][j][e] = power_of_2(fmaf(s[i][j][e], factor, -top));
        }
        YOTTA_UNROLL
        for (int j = 0; j < T::d / 8; ++j) {
          o[i][j][2 * r] *= still_worth;
          o[i][j][2 * r + 1] *= still_worth;
        }
      }
    }
  }
};

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
