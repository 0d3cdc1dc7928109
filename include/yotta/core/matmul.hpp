// The CPU matmul of the course: packed blocks and a register tile, as fast as a hand-written BLAS.
//
// Every level of memory gets the block it can hold, and uses it many times before it lets go:
//
//        n: blocks of BN             for each block of BN columns of B and C
//      +------+------+                 for each block of BK of the shared size k
//    k |  BK  |      |                   pack B's (BK, BN) block           stays in L2, all threads
//      +------+------+                   for each BM rows of A and C       shared out over threads
//      |      |      |                     pack A's (BM, BK) block         L2, each thread its own
//      +------+------+                     for each TM rows: panel of A    stays in L1
//   BM                                       for each TN columns: panel of B   streams from L2
//  +---+---+   +------+------+                 for l in BK:                a (TM, TN) tile of C
//  |   |   |   |TM TN |      |                   tile += a column * b row    stays in registers
//  +---+---+   +------+------+
//    A           C
//
// Bytes loaded per FLOP at a level whose tile is (tm, tn) are 2/tm + 2/tn in f32: from L1 0.2 for a
// 14 x 32 tile; from L2 about 2/TM, since B streams; from memory 2/BN and less. An AVX-512 core
// that does 64 FLOPs per cycle so loads 13 bytes per cycle; its L1 can give 128, its L2 about 48.
//
// Threads share out rows of C and never split k, so every number of C is summed in one order and
// the result does not depend on how many there are. Cost: 2 m n k FLOPs; packing A n/BN times and B
// once; scratch 2 BK BN + threads BM BK numbers, kept for the next call (BK is k where C is bf16).
// Where A and B are bf16, a processor's own instructions multiply pairs, or whole tiles
// (cpu/bf16_tiles.hpp); at most four rows of C are dot products of rows in memory
// (cpu/few_rows.hpp).
// Contract and letters: matmul_ladder.hpp. The tile is written in the compiler's portable vector
// types.
// References: Goto and van de Geijn (2008), algorithm gebp; Van Zee and van de Geijn, BLIS (2015).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "yotta/core/cpu/bf16_tiles.hpp"
#include "yotta/core/cpu/convert.hpp"
#include "yotta/core/cpu/few_rows.hpp"
#include "yotta/core/cpu/matmul_packing.hpp"
#include "yotta/core/cpu/matmul_rounds.hpp"
#include "yotta/core/matmul_ladder.hpp"

namespace yotta {

// Cache blocks, in elements of one type; f32: 352 steps of k, and up to 1117 columns of B for them.
// Shorter steps would fetch and store C more often, narrower blocks would pack A more often.
template <class Real>
struct BlockShape {
  static constexpr int64_t BK = 1408 / sizeof(Real);  // up to half more if that is all of k
  static constexpr int64_t b_size = (3 << 19) / sizeof(Real);  // BK * BN: most of an L2 of 2 MiB
};
inline constexpr int64_t most_panels = 8;  // of A in a block: BM = 8 TM
inline constexpr int64_t most_group = 16;  // panels of B packed by one task

template <class Sum, class Factor>
void multiply_add(Sum& sum, Factor a, const Sum& row) {
  sum += a * row;
}

// The innermost loop: one (Rows, TN) tile of C, kept in registers for `depth` steps of k. Each step
// is tile_registers loads of B, Rows broadcasts of A, and Rows * tile_registers fused
// multiply-adds. a: (depth, pitch) packed; b: (depth, TN) packed; c: rows `stride` apart, `cols` <=
// TN of them wanted. Factor: the same as Real, or a pair of bf16.
template <int Rows, class Factor, class Real>
void matmul_tile(const Factor* a, const Factor* b, int64_t depth, Real* c, int64_t stride,
                 int64_t cols, bool add) {
  using Tile = TileShape<Real>;
  using Register = typename Tile::Register;
  constexpr int lanes = Tile::lanes, N = tile_registers;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)  // C is needed in a few thousand cycles: fetch it meanwhile
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) __builtin_prefetch(c + i * stride + j * lanes, 1);
  Register sum[Rows][N] = {};
#pragma GCC unroll 4
  for (int64_t l = 0; l < depth; ++l, a += Tile::pitch, b += Tile::TN) {
    Register row[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) std::memcpy(&row[j], b + j * lanes, sizeof row[j]);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) multiply_add(sum[i][j], a[i], row[j]);
  }
  Real edge[Rows * Tile::TN];  // where a tile hangs over C's right edge
  const bool whole = cols == Tile::TN;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      Real* to = whole ? c + i * stride + j * lanes : edge + i * Tile::TN + j * lanes;
      store_register(to, add && whole ? sum[i][j] + load_register<Real>(to) : sum[i][j]);
    }
  for (int i = 0; i < Rows && !whole; ++i)
    for (int64_t j = 0; j < cols; ++j)
      c[i * stride + j] = edge[i * Tile::TN + j] + (add ? c[i * stride + j] : Real(0));
}

// What PackedMatmul packs, and what it does with a panel of A and one of B. Factor: Real, or a pair
// of bf16 (cpu/bf16_tiles.hpp).
template <class Factor, class Real>
struct RegisterKernel {
  using Packed = Factor;
  using Tile = TileShape<Real>;
  static constexpr int64_t TM = Tile::TM, TN = Tile::TN, pitch = Tile::pitch;
  static constexpr int64_t BK = BlockShape<Factor>::BK * PackedSteps<Factor>::k;
  static constexpr int64_t b_size = BlockShape<Factor>::b_size;
  struct Session {};  // of a thread that multiplies

  template <class A>
  static void pack_a(MatrixView<A> a, int64_t panels, int64_t count, Factor* out) {
    pack_panels<pitch>(a.data, a.row_stride, a.col_stride, TM, panels, count, a.cols, out);
  }
  template <class B>
  static void pack_b(MatrixView<B> b, int64_t panels, int64_t count, Factor* out) {
    pack_panels<TN>(b.data, b.col_stride, b.row_stride, TN, panels, count, b.rows, out);
  }
  // c (rows, cols) (+)= a panel of A times one of B, both of `steps` packed numbers a member.
  static void multiply(int64_t rows, const Factor* a, const Factor* b, int64_t steps, Real* c,
                       int64_t stride, int64_t cols, bool add) {
    static constexpr auto tile = tiles_by_rows(std::make_integer_sequence<int, tile_rows>{});
    tile[static_cast<size_t>(rows - 1)](a, b, steps, c, stride, cols, add);
  }

 private:
  // matmul_tile<1> to matmul_tile<TM>: the last panel of rows may be lower than TM.
  template <int... Row>
  static constexpr auto tiles_by_rows(std::integer_sequence<int, Row...>) {
    return std::array{&matmul_tile<Row + 1, Factor, Real>...};
  }
};

// One call: how it is cut, and its two kinds of task. c's columns are neighbours in memory. Where C
// is bf16, sums are f32 and rounded once: k is one block, and a task multiplies it part by part.
template <class Kernel, class A, class B, class C>
class PackedMatmul {
  using Packed = typename Kernel::Packed;
  static constexpr int64_t TM = Kernel::TM, TN = Kernel::TN, pitch = Kernel::pitch;
  static constexpr bool rounds = std::is_same_v<C, bfloat16>;

 public:
  PackedMatmul(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into, int threads)
      : a_(a), b_(b), c_(c), into_(into) {
    const int64_t row_panels = ceil_div(c.rows, TM), column_panels = ceil_div(c.cols, TN);
    depth_blocks_ = std::max<int64_t>(1, ceil_div(2 * a.cols - Kernel::BK, 2 * Kernel::BK));
    depth_ = ceil_div(ceil_div(a.cols, depth_blocks_), 32) * 32;
    depth_blocks_ = ceil_div(a.cols, depth_);  // rounded up, they may be fewer
    part_ = PackedSteps<Packed>::of(depth_);
    if (rounds) {
      depth_ *= depth_blocks_;
      depth_blocks_ = 1;
    }
    steps_ = PackedSteps<Packed>::of(depth_);
    const int64_t most_width = std::max<int64_t>(1, Kernel::b_size / (steps_ * TN));
    column_blocks_ = ceil_div(column_panels, most_width);
    width_ = ceil_div(column_panels, column_blocks_);
    // Enough tasks for an even load: lower blocks of rows first, then pieces of their columns.
    const int64_t wanted = threads > 1 ? 16 * threads : 1;
    height_ = std::clamp<int64_t>(row_panels / wanted, 1, most_panels);
    row_blocks_ = ceil_div(row_panels, height_);
    pieces_ = std::min(width_, ceil_div(wanted, 4 * row_blocks_));
  }

  void run(int threads) {
    buffers_ = pack_buffers(threads);
    const PackBuffer<Packed> b(buffers_ * width_ * TN * steps_);
    const PackBuffer<Packed> a(threads * height_ * pitch * steps_);
    const PackBuffer<float> sums(rounds ? threads * TM * width_ * TN : 0);
    packed_b_ = b.data();
    packed_a_ = a.data();
    sums_ = sums.data();
    group_ = std::clamp<int64_t>(ceil_div(width_, threads), 1, most_group);
    run_rounds(threads, column_blocks_ * depth_blocks_, ceil_div(width_, group_),
               row_blocks_ * pieces_, *this);
  }

  // Panels [task * group_, + group_) of a round's block of B.
  void pack(int64_t round, int64_t task) {
    const auto b = block_of_b(round);
    const int64_t first = task * group_, panels = std::min(group_, ceil_div(b.cols, TN) - first);
    if (panels > 0)
      Kernel::pack_b(sub_matrix(b, 0, first * TN, b.rows, b.cols), panels, b.cols - first * TN,
                     packed_b(round, first));
  }

  // c (BM, a piece of BN) (+)= a (BM, BK) b (BK, that piece).
  void multiply(int64_t round, int64_t task, int thread) {
    const int64_t depth = block_of_b(round).rows, l = first_k(round), j = first_column(round);
    const int64_t i = task / pieces_ * height_ * TM, piece = task % pieces_;
    const auto a = sub_matrix(a_, i, l, height_ * TM, depth);
    const auto c = sub_matrix(c_, i, j, height_ * TM, width_ * TN);
    const int64_t panels = ceil_div(a.rows, TM), columns = ceil_div(c.cols, TN);
    const int64_t steps = PackedSteps<Packed>::of(depth);
    const bool add = l > 0 || into_ == Into::accumulate;
    Packed* packed_a = packed_a_ + thread * height_ * pitch * steps_;
    Kernel::pack_a(a, panels, a_.rows - i, packed_a);
    const int64_t begin = columns * piece / pieces_, end = columns * (piece + 1) / pieces_;
    [[maybe_unused]] const typename Kernel::Session session;
    for (int64_t p = 0; p < panels; ++p) {
      const Packed* panel = packed_a + p * pitch * steps;
      const auto to = sub_matrix(c, p * TM, begin * TN, TM, (end - begin) * TN);
      if constexpr (rounds)
        multiply_rounded(panel, packed_b(round, begin), steps, to, add,
                         sums_ + thread * TM * width_ * TN);
      else
        multiply_panel(panel, packed_b(round, begin), steps, steps, to, add);
    }
  }

 private:
  // c (TM, some panels of columns) (+)= a panel of A times as many of B, which have `steps` packed
  // numbers for each row and column; `count` of them are multiplied.
  template <class Real>
  static void multiply_panel(const Packed* a, const Packed* b, int64_t steps, int64_t count,
                             MatrixView<Real> c, bool add) {
    for (int64_t j = 0; j < c.cols; j += TN)
      Kernel::multiply(c.rows, a, b + j * steps, count, &c(0, j), c.row_stride,
                       std::min(TN, c.cols - j), add);
  }
  // The same with all steps, part by part; the sums are in `scratch` until they are rounded.
  void multiply_rounded(const Packed* a, const Packed* b, int64_t steps, MatrixView<bfloat16> c,
                        bool add, float* scratch) const {
    const auto sums = row_major(scratch, c.rows, c.cols);
    for (int64_t i = 0; i < c.rows && add; ++i) widen_numbers(&sums(i, 0), &c(i, 0), c.cols);
    for (int64_t first = 0; first < steps; first += part_)
      multiply_panel(a + first * pitch, b + first * TN, steps, std::min(part_, steps - first), sums,
                     add || first > 0);
    for (int64_t i = 0; i < c.rows; ++i) round_numbers(&c(i, 0), &sums(i, 0), c.cols);
  }

  int64_t first_k(int64_t round) const { return round % depth_blocks_ * depth_; }
  int64_t first_column(int64_t round) const { return round / depth_blocks_ * width_ * TN; }
  MatrixView<B> block_of_b(int64_t round) const {
    return sub_matrix(b_, first_k(round), first_column(round), depth_, width_ * TN);
  }
  Packed* packed_b(int64_t round, int64_t panel) const {
    const int64_t steps = PackedSteps<Packed>::of(block_of_b(round).rows);
    return packed_b_ + (round % buffers_ * width_ * steps_ + panel * steps) * TN;
  }

  MatrixView<A> a_;  // (m, k)
  MatrixView<B> b_;  // (k, n)
  MatrixView<C> c_;  // (m, n)
  Into into_;
  int64_t buffers_ = 1;            // blocks of B packed at once
  int64_t group_ = 1;              // panels of B packed by one task
  int64_t column_blocks_, width_;  // blocks of columns, each of width_ panels
  int64_t depth_blocks_, depth_;   // blocks of k, each of depth_
  int64_t steps_, part_;           // packed numbers of a member in a block, and multiplied at once
  int64_t row_blocks_, height_,
      pieces_;                  // blocks of rows, each of height_ panels; pieces of their width
  Packed* packed_b_ = nullptr;  // (buffers, panels, steps, TN)
  Packed* packed_a_ = nullptr;  // (threads, panels, steps, pitch)
  float* sums_ = nullptr;       // (threads, TM, a block of columns) where C is bf16
};

template <class Kernel, class A, class B, class C>
void matmul_packed(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into, int threads) {
  PackedMatmul<Kernel, A, B, C>(a, b, c, into, threads).run(threads);
}

// C in slices along its longer side, one per thread, so that no thread reads what another has
// packed. To fetch a block from another core's cache takes as long as some hundred rows take to use
// it: where the shorter side of C is small, it is cheaper to pack twice.
template <class Kernel, class A, class B, class C>
void matmul_in_slices(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into, int threads) {
  const bool by_rows = c.rows > c.cols;
  const int64_t step = by_rows ? Kernel::TM : Kernel::TN;
  const int64_t tiles = ceil_div(std::max(c.rows, c.cols), step);
  std::atomic<int> next = 0;
  ThreadPool::instance().run(threads, [&](int) {
    for (int i = next++; i < threads; i = next++) {
      const int64_t begin = tiles * i / threads * step, end = tiles * (i + 1) / threads * step;
      if (by_rows)
        matmul_packed<Kernel>(sub_matrix(a, begin, 0, end - begin, a.cols), b,
                              sub_matrix(c, begin, 0, end - begin, c.cols), into, 1);
      else
        matmul_packed<Kernel>(a, sub_matrix(b, 0, begin, b.rows, end - begin),
                              sub_matrix(c, 0, begin, c.rows, end - begin), into, 1);
    }
  });
}
inline constexpr int64_t slices_below = 640, least_slice = 128;  // sides of C, measured

template <class Kernel, class A, class B, class C>
void matmul_on_threads(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into, int threads) {
  const bool in_slices = threads > 1 && std::min(c.rows, c.cols) <= slices_below &&
                         std::max(c.rows, c.cols) >= threads * least_slice;
  in_slices ? matmul_in_slices<Kernel>(a, b, c, into, threads)
            : matmul_packed<Kernel>(a, b, c, into, threads);
}

// C (m, n) = A (m, k) B (k, n), or C += A B, on up to `threads` threads (thread_pool.hpp).
// C: float or double; A, B: that, bf16 or f16. Where bf16 has instructions of its own, numbers
// below 2^-126 may count as zero. Throws Error if the shapes do not fit.
template <class A, class B, class C>
void matmul(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into, int threads = 1,
            Where where = Where::current()) {
  static_assert(std::is_same_v<C, float> || std::is_same_v<C, double>, "sums are float or double");
  check_matmul(a, b, c, where);
  if (c.col_stride != 1 && c.row_stride == 1)  // columns of C are contiguous: C' = B' A'
    return matmul(transposed(b), transposed(a), transposed(c), into, threads, where);
  const double flops = matmul_flops(c.rows, c.cols, a.cols);
  if (flops < 8192 || c.col_stride != 1) return matmul_reordered(a, b, c, into, where);
  if (has_few_rows(a, b, c)) return matmul_few_rows(a, b, c, into, threads);
  if (flops < 2e6 || threads < 1)
    threads = 1;  // a few microseconds: waking a thread would cost more
  with_kernel<A, B, C>(
      [&]<class Kernel>(Kernel) { matmul_on_threads<Kernel>(a, b, c, into, threads); });
}

// The same into bf16: sums are f32, and rounded once where they are stored. k is packed whole, so
// it should not be long, and C's columns are neighbours in memory.
template <class A>
bool can_round(MatrixView<A> a, MatrixView<bfloat16> c) {
  return matmul_flops(c.rows, c.cols, a.cols) >= 8192 && a.cols <= 2048 && c.col_stride == 1;
}
template <class A, class B>
void matmul_rounded(MatrixView<A> a, MatrixView<B> b, MatrixView<bfloat16> c, Into into,
                    int threads = 1, Where where = Where::current()) {
  check_matmul(a, b, c, where);
  if (!can_round(a, c))
    fail(where, "matmul_rounded: c is ({}, {}) with k {}; expected what can_round() takes", c.rows,
         c.cols, a.cols);
  if (has_few_rows(a, b, c)) return matmul_few_rows(a, b, c, into, threads);
  if (matmul_flops(c.rows, c.cols, a.cols) < 2e6 || threads < 1) threads = 1;
  with_kernel<A, B, float>(
      [&]<class Kernel>(Kernel) { matmul_on_threads<Kernel>(a, b, c, into, threads); });
}

}  // namespace yotta
