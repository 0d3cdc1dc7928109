// The CPU matmul of the course: packed blocks and a register tile, as fast as a hand-written BLAS.
//
// Every level of memory gets the block it can hold, and uses it many times before it lets go:
//
//        n: blocks of BN                 for each block of BN columns of B and C
//      +------+------+                     for each block of BK of the shared size k
//    k |  BK  |      |                       pack B's (BK, BN) block           stays in L2, all threads
//      +------+------+                       for each BM rows of A and C       shared out over threads
//      |      |      |                         pack A's (BM, BK) block         L2, each thread its own
//      +------+------+                         for each TM rows: panel of A    stays in L1
//   BM                                           for each TN columns: panel of B   streams from L2
//  +---+---+   +------+------+                     for l in BK:                a (TM, TN) tile of C
//  |   |   |   |TM TN |      |                       tile += a column * b row    stays in registers
//  +---+---+   +------+------+
//    A           C
//
// Bytes loaded per FLOP at a level whose tile is (tm, tn) are 2/tm + 2/tn in f32: from L1 0.2 for a
// 14 x 32 tile; from L2 about 2/TM, since B streams; from memory 2/BN and less. An AVX-512 core
// that does 64 FLOPs a cycle so loads 13 bytes a cycle; its L1 can give 128, its L2 about 48.
//
// Threads share out rows of C and never split k, so every number of C is summed in one order and the
// result does not depend on how many there are. Cost: 2 m n k FLOPs; packing A n/BN times and B once;
// scratch BK BN + threads BM BK numbers, kept for the next call.
// Contract and letters: matmul_ladder.hpp. The tile is written in the compiler's portable vector types.
// References: Goto and van de Geijn (2008), algorithm gebp; Van Zee and van de Geijn, BLIS (2015).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "yotta/core/matmul_ladder.hpp"
#include "yotta/core/matmul_pack.hpp"
#include "yotta/core/memory.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace yotta {

// Cache blocks. BK * TN numbers of B and BK * pitch of A share L1; BK * BN numbers of B fill half of L2.
template <class Real>
struct BlockShape {
  static constexpr int64_t BK = 1024 / sizeof(Real);
  static constexpr int64_t BN = 1024 / TileShape<Real>::TN * TileShape<Real>::TN;
  static constexpr int64_t panels = 8;  // of A in a block: BM = 8 TM
};

// The innermost loop: one (Rows, TN) tile of C, kept in registers for `depth` steps of k. Each step is
// tile_registers loads of B, Rows broadcasts of A, and Rows * tile_registers fused multiply-adds.
// a: (depth, pitch) packed; b: (depth, TN) packed; c: rows `stride` apart, `cols` <= TN of them wanted.
template <int Rows, class Real>
void matmul_tile(const Real* a, const Real* b, int64_t depth, Real* c, int64_t stride, int64_t cols,
                 bool add) {
  using Shape = TileShape<Real>;
  using Register = typename Shape::Register;
  constexpr int lanes = Shape::lanes, N = tile_registers;
  Register sum[Rows][N] = {};
  for (int64_t l = 0; l < depth; ++l, a += Shape::pitch, b += Shape::TN) {
    Register row[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) row[j] = load_register<Real>(b + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[i][j] += a[i] * row[j];
  }
  Real edge[Shape::TN];  // a tile that hangs over C's right edge is written through here
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i, c += stride) {
    Real* to = cols == Shape::TN ? c : edge;
    if (add && to == edge) std::copy_n(c, cols, edge);
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j)
      store_register(to + j * lanes,
                     add ? sum[i][j] + load_register<Real>(to + j * lanes) : sum[i][j]);
    if (to == edge) std::copy_n(edge, cols, c);
  }
}

// matmul_tile<1> to matmul_tile<TM>: the last panel of rows may be lower than TM.
template <class Real, int... Row>
constexpr auto tiles_by_rows(std::integer_sequence<int, Row...>) {
  return std::array{&matmul_tile<Row + 1, Real>...};
}

// body(task, thread) for every task in [0, count), on up to `threads` threads; a free thread takes the
// next one, so a busy neighbour on one core does not hold up the others.
template <class Body>
void share_tasks([[maybe_unused]] int threads, int64_t count, const Body& body) {
#if defined(_OPENMP)
  if (threads > 1 && count > 1) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t task = 0; task < count; ++task) body(task, omp_get_thread_num());
    return;
  }
#endif
  for (int64_t task = 0; task < count; ++task) body(task, 0);
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Scratch for packed blocks, taken from the process's cache of free blocks and given back.
template <class Real>
class PackBuffer {
 public:
  explicit PackBuffer(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(Real))),
        data_(static_cast<Real*>(BlockCache::instance().take(bytes_))) {}
  ~PackBuffer() { BlockCache::instance().give(data_, bytes_); }
  PackBuffer(const PackBuffer&) = delete;
  PackBuffer& operator=(const PackBuffer&) = delete;
  Real* data() const { return data_; }

 private:
  int64_t bytes_;
  Real* data_;
};

// c (m, BN) (+)= a (m, BK) b (BK, BN): the two inner blocks of the picture. c's columns are neighbours.
template <class A, class B, class Real>
void matmul_block(MatrixView<A> a, MatrixView<B> b, MatrixView<Real> c, bool add, int threads,
                  Real* packed_b, Real* packed_a) {
  using Shape = TileShape<Real>;
  constexpr int TM = Shape::TM, TN = Shape::TN, pitch = Shape::pitch;
  static constexpr auto tile = tiles_by_rows<Real>(std::make_integer_sequence<int, TM>{});
  const int64_t depth = a.cols, column_panels = ceil_div(c.cols, TN);
  const int64_t group = 4;
  share_tasks(threads, ceil_div(column_panels, group), [&](int64_t task, int) {
    const int64_t p = task * group;
    pack_panels<TN>(&b(0, p * TN), b.col_stride, b.row_stride, TN,
                    std::min(group, column_panels - p), b.cols - p * TN, depth,
                    packed_b + p * TN * depth);
  });
  // Enough tasks for an even load: lower blocks first, then pieces of a row of tiles.
  const int64_t row_panels = ceil_div(c.rows, TM), wanted = threads > 1 ? 8 * threads : 1;
  const int64_t height = std::clamp<int64_t>(row_panels / wanted, 1, BlockShape<Real>::panels);
  const int64_t blocks = ceil_div(row_panels, height);
  const int64_t pieces = std::min(column_panels, ceil_div(wanted, 4 * blocks));
  share_tasks(threads, blocks * pieces, [&](int64_t task, int thread) {
    const int64_t first = task / pieces * height, last = std::min(first + height, row_panels);
    const int64_t begin = column_panels * (task % pieces) / pieces;
    const int64_t end = column_panels * (task % pieces + 1) / pieces;
    Real* mine = packed_a + thread * (BlockShape<Real>::panels * pitch * BlockShape<Real>::BK);
    pack_panels<pitch>(&a(first * TM, 0), a.row_stride, a.col_stride, TM, last - first,
                       a.rows - first * TM, depth, mine);
    for (int64_t i = first; i < last; ++i)
      for (int64_t j = begin; j < end; ++j) {
        const int64_t rows = std::min<int64_t>(TM, c.rows - i * TM);
        tile[static_cast<size_t>(rows - 1)](
            mine + (i - first) * pitch * depth, packed_b + j * TN * depth, depth,
            &c(i * TM, j * TN), c.row_stride, std::min<int64_t>(TN, c.cols - j * TN), add);
      }
  });
}

// C (m, n) = A (m, k) B (k, n), or C += A B, on up to `threads` threads (OpenMP; 1 without it).
// C: float or double; A, B: that, bf16 or f16. Throws Error if the shapes do not fit.
template <class A, class B, class C>
void matmul(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into, int threads = 1,
            Where where = Where::current()) {
  static_assert(std::is_same_v<C, float> || std::is_same_v<C, double>, "sums are float or double");
  check_matmul(a, b, c, where);
  if (c.col_stride != 1 && c.row_stride == 1)  // columns of C are contiguous: C' = B' A'
    return matmul(transposed(b), transposed(a), transposed(c), into, threads, where);
  const double flops = matmul_flops(c.rows, c.cols, a.cols);
  if (flops < 8192 || c.col_stride != 1) return matmul_reordered(a, b, c, into, where);
  if (flops < 2e6) threads = 1;  // a few microseconds: waking a thread would cost more

  constexpr int64_t BK = BlockShape<C>::BK, BN = BlockShape<C>::BN, TN = TileShape<C>::TN;
  const PackBuffer<C> packed_b(BK * ceil_div(std::min(BN, c.cols), TN) * TN);
  const PackBuffer<C> packed_a(threads * (BlockShape<C>::panels * TileShape<C>::pitch * BK));
  for (int64_t j = 0; j < c.cols; j += BN)
    for (int64_t l = 0; l < a.cols; l += BK)
      matmul_block(sub_matrix(a, 0, l, a.rows, BK), sub_matrix(b, l, j, BK, BN),
                   sub_matrix(c, 0, j, c.rows, BN), l > 0 || into == Into::accumulate, threads,
                   packed_b.data(), packed_a.data());
}

}  // namespace yotta
