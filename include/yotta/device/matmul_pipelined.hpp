// The CUDA matmul ladder, rungs 5 to 7: vectorised, double-buffered, warp tiles. C (m, n) = A (m,
// k) B (k, n).
//
//     vectorised       global ─► registers ─► shared ─► barrier ─► multiply ─► barrier   (float4)
//
//     double-buffered  global ─► registers ────────────────────────► shared 1 ─► barrier
//                                    multiply from shared 0 while the next tile is loaded
//     warp tiles       the same, and each warp works on one (32, 64) corner: no bank conflicts, and
//                      fewer different numbers are read by a warp
//
// Nothing changes in what is computed or in how many bytes come from memory. What changes is the
// number of instructions that move them (a quarter), how long multipliers wait for them, and how
// often threads of a warp access the same bank of shared memory.
//
// What they share: tiles are fetched a float4 at a time.
//
//     x (rows, cols) in memory            registers            shared memory
//     ┌───────────┐                       float4 .........  A's tile transposed (BK, BM): column l
//     │   ┌────┐  │  4 numbers per load   float4 .........  of A's tile is contiguous, so a thread
//     │   │tile│  │ ────────────────►     float4 .........  takes 4 rows with one load as well
//     │   └────┘  │
//     └───────────┘  zeros beyond the edges
//
// A float4 must lie on a multiple of 16 bytes. Rows begin there if their length is a multiple of 4;
// where it is not, numbers are loaded one by one: correct, but slower. A kernel with Quads::always
// is launched where k and n are multiples of 4: it asks nothing in its loops.
// Cost: bytes as matmul_register_tiles.hpp; shared memory 4 (BK (BM + 4) + BK BN) bytes, doubled
// from rung 6 on.
// Registers: a thread holds 64 sums, and the tiles on their way. __launch_bounds__ says that two
// blocks are to fit on an SM, 128 registers a thread: left alone, nvcc takes 155 for an H100, and
// one block waits alone at its barriers. __restrict__: C is no part of A or B, so that a load need
// not wait for a store.
// Contract: block (BM BN / 64) threads, grid (ceil(n / BN), ceil(m / BM)); m k, k n and m n below
// 2^31; A, B and C begin on 16 bytes, as cudaMalloc's memory does.
// Letters: (BM, BN) a block's tile of C, BK its step in k; (TM, TN) = (8, 8) a thread's, in four
// quads of (4, 4); (WM, WN) = (32, 64) a warp's.
// References: NVIDIA CUTLASS, "Efficient GEMM in CUDA" (threadblock, warp and thread tiles;
// software pipelining); Boehm, "How to Optimize a CUDA Matmul Kernel" (2022), kernels 6 to 10.
#pragma once

#include "yotta/device/kernel.hpp"
#include "yotta/device/vector_types.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// ---- What the three rungs share: tiles fetched a float4 at a time, and each thread's numbers ----

enum class Quads { always, where_rows_allow };

// x(row, col) to x(row, col + 3) of x (rows, cols), row-major; zeros beyond the edges.
template <Quads quads = Quads::where_rows_allow>
__device__ float4 load4(const float* x, int rows, int cols, int row, int col) {
  if (row >= rows || col >= cols) return make_float4(0, 0, 0, 0);
  const float* from = x + row * cols + col;
  if (quads == Quads::always || cols % 4 == 0) return *reinterpret_cast<const float4*>(from);
  return make_float4(from[0], col + 1 < cols ? from[1] : 0, col + 2 < cols ? from[2] : 0,
                     col + 3 < cols ? from[3] : 0);
}

// The reverse; what lies beyond the edges is dropped.
template <Quads quads = Quads::where_rows_allow>
__device__ void store4(float* x, int rows, int cols, int row, int col, float4 value) {
  if (row >= rows || col >= cols) return;
  float* to = x + row * cols + col;
  if (quads == Quads::always || cols % 4 == 0) {
    *reinterpret_cast<float4*>(to) = value;
    return;
  }
  to[0] = value.x;
  if (col + 1 < cols) to[1] = value.y;
  if (col + 2 < cols) to[2] = value.z;
  if (col + 3 < cols) to[3] = value.w;
}

// A (ROWS, COLS) tile on its way through the registers of THREADS threads.
template <int ROWS, int COLS, int THREADS, Quads quads_are = Quads::where_rows_allow>
struct TileFetch {
  static constexpr int quads = COLS / 4;                // float4s in a row
  static constexpr int count = ROWS * quads / THREADS;  // float4s per thread
  static_assert(count * THREADS == ROWS * quads, "the tile divides among the threads");
  float4 held[count];

  __device__ static int row(int i) { return (threadIdx.x + i * THREADS) / quads; }
  __device__ static int col(int i) { return (threadIdx.x + i * THREADS) % quads * 4; }

  // The tile of x (rows, cols) whose corner is (top, left).
  __device__ void load(const float* x, int rows, int cols, int top, int left) {
    for (int i = 0; i < count; ++i)
      held[i] = load4<quads_are>(x, rows, cols, top + row(i), left + col(i));
  }
  template <int PITCH>
  __device__ void store(float (*tile)[PITCH]) const {  // (ROWS, PITCH)
    for (int i = 0; i < count; ++i) *reinterpret_cast<float4*>(&tile[row(i)][col(i)]) = held[i];
  }
  template <int PITCH>
  __device__ void store_transposed(float (*tile)[PITCH]) const {  // (COLS, PITCH)
    for (int i = 0; i < count; ++i) {
      tile[col(i)][row(i)] = held[i].x;
      tile[col(i) + 1][row(i)] = held[i].y;
      tile[col(i) + 2][row(i)] = held[i].z;
      tile[col(i) + 3][row(i)] = held[i].w;
    }
  }
};

// Where a thread's quads lie in the block's (BM, BN) tile: row(q) and col(q), q = 0, 1, are the
// first of four rows and columns.
//
// ThreadTiles: an (8, 8) square per thread, side by side. Lanes 0 to 15 of a warp read columns 8
// apart, so two of each eight meet in one bank.
template <int BN>
struct ThreadTiles {
  int top, left;
  __device__ ThreadTiles() : top(threadIdx.x / (BN / 8) * 8), left(threadIdx.x % (BN / 8) * 8) {}
  __device__ int row(int q) const { return top + 4 * q; }
  __device__ int col(int q) const { return left + 4 * q; }
};

// WarpTiles: a (32, 64) tile per warp; its lanes stand 4 high and 8 wide, 4 columns apart, so that
// eight of them read 32 neighbouring numbers: one from each bank.
//
//               64 columns                                    a warp's 32 lanes: 4 x 8
//          ┌───────────┬───────────┐                          each lane: one (4, 4) quad in each of
//     32   │ lane q00  │ lane q01  │                          the four parts
//     rows ├───────────┼───────────┤
//          │ lane q10  │ lane q11  │
//          └───────────┴───────────┘
template <int BN>
struct WarpTiles {
  int top, left;
  __device__ WarpTiles() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    top = warp / (BN / 64) * 32 + lane / 8 * 4;
    left = warp % (BN / 64) * 64 + lane % 8 * 4;
  }
  __device__ int row(int q) const { return top + 16 * q; }
  __device__ int col(int q) const { return left + 32 * q; }
};

// sums (8, 8) += a b for one block tile: a (BK, ...) transposed, b (BK, ...), both in shared
// memory. Each step of k loads 16 numbers with four float4 and multiplies them 64 times.
template <int BK, int A_PITCH, int B_PITCH, class Tiles>
__device__ void multiply_tile(const float (*a)[A_PITCH], const float (*b)[B_PITCH], const Tiles& at,
                              float (&sums)[8][8]) {
  for (int l = 0; l < BK; ++l) {
    float4 rows[2], cols[2];
    for (int q = 0; q < 2; ++q) rows[q] = *reinterpret_cast<const float4*>(&a[l][at.row(q)]);
    for (int q = 0; q < 2; ++q) cols[q] = *reinterpret_cast<const float4*>(&b[l][at.col(q)]);
    const float x[8] = {rows[0].x, rows[0].y, rows[0].z, rows[0].w,
                        rows[1].x, rows[1].y, rows[1].z, rows[1].w};
    const float y[8] = {cols[0].x, cols[0].y, cols[0].z, cols[0].w,
                        cols[1].x, cols[1].y, cols[1].z, cols[1].w};
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) sums[i][j] += x[i] * y[j];
  }
}

// Writes a thread's sums into C (m, n); (top, left) is the corner of the block's tile.
template <Quads quads, class Tiles>
__device__ void store_sums(float* c, int m, int n, int top, int left, const Tiles& at,
                           const float (&sums)[8][8]) {
  for (int i = 0; i < 8; ++i)
    for (int q = 0; q < 2; ++q) {
      const float* four = &sums[i][4 * q];
      store4<quads>(c, m, n, top + at.row(i / 4) + i % 4, left + at.col(q),
                    make_float4(four[0], four[1], four[2], four[3]));
    }
}

// ---- The rungs ----

// Rows of A's transposed tile are 4 numbers longer than the tile. A warp stores 16 rows of two
// float4 columns, which lie 4 rows of the tile apart: without the 4 both columns would fall into
// the same banks.
template <int BM>
inline constexpr int a_pitch = BM + 4;

// Rung 5: the 2D register tile with float4 loads. A is transposed on its way into shared memory.
template <int BM, int BN, int BK, Quads quads = Quads::where_rows_allow>
__global__ void __launch_bounds__(BM* BN / 64, 2)
    matmul_vectorised(const float* __restrict__ a, const float* __restrict__ b,
                      float* __restrict__ c, int m, int n, int k) {
  constexpr int threads = BM * BN / 64;
  alignas(16) __shared__ float a_tile[BK][a_pitch<BM>], b_tile[BK][BN];
  const int top = blockIdx.y * BM, left = blockIdx.x * BN;
  const ThreadTiles<BN> at;
  TileFetch<BM, BK, threads, quads> a_fetch;
  TileFetch<BK, BN, threads, quads> b_fetch;
  float sums[8][8] = {};
  for (int l = 0; l < k; l += BK) {
    a_fetch.load(a, m, k, top, l);
    b_fetch.load(b, k, n, l, left);
    a_fetch.store_transposed(a_tile);
    b_fetch.store(b_tile);
    __syncthreads();
    multiply_tile<BK>(a_tile, b_tile, at, sums);
    __syncthreads();
  }
  store_sums<quads>(c, m, n, top, left, at, sums);
}

// Rungs 6 and 7: while tile t is multiplied, tile t + 1 is on its way into registers; it goes into
// the other half of shared memory, which nobody reads, so one barrier per tile is enough.
template <int BM, int BN, int BK, template <int> class Tiles, Quads quads>
__global__ void __launch_bounds__(BM* BN / 64, 2)
    matmul_pipelined(const float* __restrict__ a, const float* __restrict__ b,
                     float* __restrict__ c, int m, int n, int k) {
  constexpr int threads = BM * BN / 64;
  alignas(16) __shared__ float a_tile[2][BK][a_pitch<BM>], b_tile[2][BK][BN];
  const int top = blockIdx.y * BM, left = blockIdx.x * BN;
  const Tiles<BN> at;
  TileFetch<BM, BK, threads, quads> a_fetch;
  TileFetch<BK, BN, threads, quads> b_fetch;
  float sums[8][8] = {};
  const auto fetch = [&](int l) {
    a_fetch.load(a, m, k, top, l);
    b_fetch.load(b, k, n, l, left);
  };
  const auto put = [&](int which) {
    a_fetch.store_transposed(a_tile[which]);
    b_fetch.store(b_tile[which]);
  };
  fetch(0);
  put(0);
  __syncthreads();
  for (int l = 0, which = 0; l < k; l += BK, which ^= 1) {
    const bool more = l + BK < k;
    if (more) fetch(l + BK);
    multiply_tile<BK>(a_tile[which], b_tile[which], at, sums);
    if (more) put(which ^ 1);
    __syncthreads();
  }
  store_sums<quads>(c, m, n, top, left, at, sums);
}

// Rung 6: a thread's numbers lie where they did before.
template <int BM, int BN, int BK, Quads quads = Quads::where_rows_allow>
inline constexpr auto matmul_double_buffered = matmul_pipelined<BM, BN, BK, ThreadTiles, quads>;

// Rung 7: each warp has a tile of its own.
template <int BM, int BN, int BK, Quads quads = Quads::where_rows_allow>
inline constexpr auto matmul_warp_tile = matmul_pipelined<BM, BN, BK, WarpTiles, quads>;

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
