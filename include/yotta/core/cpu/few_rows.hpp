// C (m, n) = A (m, k) B (k, n) of at most four rows, as when text is written token by token.
//
//     x  (1, k)   |████████████|         every number of C is a dot product of two rows in memory:
//                  ············          B's columns, the rows of a linear layer's weight
//     w' (k, n)   |████████████| 0 ──►  y0
//                 |████████████| 1 ──►  y1
//
// Each weight is used once a row: to fetch it is what costs, and to pack it first would cost as
// much again. So nothing is packed, and a few columns at a time share the loads of A. Two threads
// fetch up to twice as fast as one, so a second one pays long before there are many FLOPs. Two rows
// of bf16 are multiplied pair by pair, where the processor can (bf16_tiles.hpp).
// Cost: 2 m n k FLOPs; B is read once. Sums go lane by lane over k, then over the lanes: each
// number has one order, whatever the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "yotta/core/cpu/bf16_tiles.hpp"
#include "yotta/core/cpu/matmul_packing.hpp"
#include "yotta/core/cpu/thread_pool.hpp"
#include "yotta/core/dtype.hpp"
#include "yotta/core/matrix_view.hpp"

namespace yotta {

namespace detail {

template <class Real>
Real sum_of_lanes(typename TileShape<Real>::Register x) {
  Real lane[TileShape<Real>::lanes];
  store_register(lane, x);
  for (int half = TileShape<Real>::lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// What one instruction takes of two rows: `numbers` of each.
template <class A, class B, class Real>
struct DotStep {
  using Register = typename TileShape<Real>::Register;
  static constexpr int numbers = TileShape<Real>::lanes;
  template <class T>
  static Register load(const T* from) {
    return load_register<Real>(from);
  }
  static void add(Register& sum, Register a, Register b) { sum += a * b; }
};
#if defined(YOTTA_BF16_PAIRS)
// Registers hold pairs as if they were f32: clang 19 without optimization gives wrong sums if these
// functions take and return __m512bh.
template <>
struct DotStep<bfloat16, bfloat16, float> {
  using Register = TileShape<float>::Register;
  static constexpr int numbers = 32;
  static Register load(const bfloat16* from) {
    Register pairs;
    std::memcpy(&pairs, from, sizeof pairs);
    return pairs;
  }
  static void add(Register& sum, Register a, Register b) {
    sum = (Register)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
};
#endif

// c (Rows, Columns) (+)= a (Rows, k) b (k, Columns); along k both are neighbours in memory.
template <int Rows, int Columns, class A, class B, class C>
void dot_products(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, bool add) {
  using Real = Computed<C>;
  using Step = DotStep<std::remove_const_t<A>, std::remove_const_t<B>, Real>;
  typename Step::Register sum[Rows][Columns] = {};
  const int64_t whole = a.cols / Step::numbers * Step::numbers;
  for (int64_t l = 0; l < whole; l += Step::numbers)
    for (int j = 0; j < Columns; ++j) {
      if (sizeof(B) < sizeof(Real)) __builtin_prefetch(&b(l, j + Columns));  // the next columns'
      const auto column = Step::load(&b(l, j));
      for (int i = 0; i < Rows; ++i) Step::add(sum[i][j], Step::load(&a(i, l)), column);
    }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Columns; ++j) {
      Real total = sum_of_lanes<Real>(sum[i][j]);
      for (int64_t l = whole; l < a.cols; ++l)
        total += static_cast<Real>(a(i, l)) * static_cast<Real>(b(l, j));
      c(i, j) = static_cast<C>(add ? static_cast<Real>(c(i, j)) + total : total);
    }
}

template <int Rows, class A, class B, class C>
void dot_rows(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, bool add) {
  constexpr int columns = 8 / Rows;  // eight sums or six hide the latency of one
  int64_t j = 0;
  for (; j + columns <= c.cols; j += columns)
    dot_products<Rows, columns>(a, sub_matrix(b, 0, j, b.rows, columns),
                                sub_matrix(c, 0, j, c.rows, columns), add);
  for (; j < c.cols; ++j)
    dot_products<Rows, 1>(a, sub_matrix(b, 0, j, b.rows, 1), sub_matrix(c, 0, j, c.rows, 1), add);
}

}  // namespace detail

template <class A, class B, class C>
bool has_few_rows(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c) {
  return c.rows <= 4 && a.col_stride == 1 && b.row_stride == 1 && c.col_stride == 1;
}

// C = A B or C += A B, where has_few_rows().
template <class A, class B, class Real>
void matmul_few_rows(MatrixView<A> a, MatrixView<B> b, MatrixView<Real> c, Into into, int threads) {
  constexpr int64_t worth_a_thread = 100'000;  // numbers of B: some microseconds
  const bool add = into == Into::accumulate, is_short = b.rows * b.cols < worth_a_thread;
  const int64_t parts = std::clamp<int64_t>(c.cols / 64, 1, is_short ? 1 : std::max(threads, 1));
  std::atomic<int64_t> next = 0;
  ThreadPool::instance().run(static_cast<int>(parts), [&](int) {
    for (int64_t part = next++; part < parts; part = next++) {
      const int64_t begin = c.cols * part / parts, count = c.cols * (part + 1) / parts - begin;
      const auto columns = sub_matrix(b, 0, begin, b.rows, count);
      const auto to = sub_matrix(c, 0, begin, c.rows, count);
      switch (c.rows) {
        case 1: detail::dot_rows<1>(a, columns, to, add); break;
        case 2: detail::dot_rows<2>(a, columns, to, add); break;
        case 3: detail::dot_rows<3>(a, columns, to, add); break;
        default: detail::dot_rows<4>(a, columns, to, add);
      }
    }
  });
}

}  // namespace yotta
