// The first three rungs of a matmul on the CPU: naive, reordered, tiled.
//
// C = A B is 2 m n k floating-point operations on only m k + k n + m n numbers, so each number can
// be used hundreds of times. A core multiplies far faster than memory delivers, so a number must be
// used again while it is still in a cache or a register. Each rung keeps the arithmetic and changes
// only the order.
//
//         k           n            n        rung        in the innermost loop       bytes per FLOP
//      +-----+     +-----+     +-------+    naive       a row of A, a column of B   4
//    m |  A  |   k |  B  |   m |   C   |                (a line of B per number)
//      +-----+     +-----+     +-------+    reordered   a row of B into a row of C  6
//                                                       (in cache; in vectors)
//    c(i, j) = sum over l of                tiled       the same, on blocks that    6, from L1; and
//              a(i, l) b(l, j)                          stay in the caches          4/BM + 4/BN
//                                                                                   from memory
//    matmul.hpp, the last rung, keeps a tile of C in registers: about 2/TM + 2/TN from L1. With
//    14x32 f32: 0.2 bytes per FLOP, thirty times less than reordered.
//
// Contract: a is (m, k), b is (k, n), c is (m, n), any strides, not overlapping; c is overwritten
// or added to. Element types: float and double; A and B also bf16 and f16, widened to C's type.
// Letters: m, n, k sizes; i, j, l their indices; BM, BN, BK a block of cache; TM, TN a tile of
// registers.
// References: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008), sec.
// 3-4; Hennessy and Patterson, Computer Architecture (blocking).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "yotta/core/matrix_view.hpp"

namespace yotta {

template <class C>
void clear_for(Into into, MatrixView<C> c) {
  if (into == Into::accumulate) return;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) c(i, j) = C(0);
}

// Rung 0, as it is written on the blackboard. B is read down its columns: of each 64-byte cache
// line that arrives only one number is used, and the sum waits for its own last addition.
template <class A, class B, class C>
void matmul_naive(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into,
                  Where where = Where::current()) {
  check_matmul(a, b, c, where);
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) {
      C sum = into == Into::accumulate ? c(i, j) : C(0);
      for (int64_t l = 0; l < a.cols; ++l) sum += static_cast<C>(a(i, l)) * static_cast<C>(b(l, j));
      c(i, j) = sum;
    }
}

// c (rows of a, cols of b) += a b, innermost along a row of b and of c: neighbours in memory, every
// byte of a line used, and the compiler can do 4 to 16 elements with one instruction, if it knows
// that they are.
template <class A, class B, class C>
void add_product(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c) {
  if (c.cols == 0) return;  // then b and c may have no memory at all
  const bool neighbours = b.col_stride == 1 && c.col_stride == 1;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t l = 0; l < a.cols; ++l) {
      const C factor = static_cast<C>(a(i, l));
      const B* from = &b(l, 0);
      C* to = &c(i, 0);
      if (neighbours)
        for (int64_t j = 0; j < c.cols; ++j) to[j] += factor * static_cast<C>(from[j]);
      else
        for (int64_t j = 0; j < c.cols; ++j)
          to[j * c.col_stride] += factor * static_cast<C>(from[j * b.col_stride]);
    }
}

// Rung 1: the same three loops in another order.
template <class A, class B, class C>
void matmul_reordered(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into,
                      Where where = Where::current()) {
  check_matmul(a, b, c, where);
  clear_for(into, c);
  add_product(a, b, c);
}

// Rung 2: rung 1 on blocks of A and B that stay in the caches: a (BK, BN) block of B, 128 KiB of
// f32 and so in L2, is used for all rows of A before the next one is fetched. Still every product
// reads and writes its number of C, so the loads, not the multiplications, set the speed.
template <class A, class B, class C>
void matmul_tiled(MatrixView<A> a, MatrixView<B> b, MatrixView<C> c, Into into,
                  Where where = Where::current()) {
  check_matmul(a, b, c, where);
  clear_for(into, c);
  constexpr int64_t BM = 64, BN = 256, BK = 128;
  for (int64_t j = 0; j < c.cols; j += BN)
    for (int64_t l = 0; l < a.cols; l += BK)
      for (int64_t i = 0; i < c.rows; i += BM)
        add_product(sub_matrix(a, i, l, BM, BK), sub_matrix(b, l, j, BK, BN),
                    sub_matrix(c, i, j, BM, BN));
}

}  // namespace yotta
