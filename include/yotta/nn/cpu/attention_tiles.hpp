// One head of blockwise attention, tile by tile: the arithmetic behind attention_blockwise.hpp.
//
//     keys ->        j = 0    j = BK              forward   one tile of queries walks over the keys
//     q  tile 0    [ \     |         ]            backward  one tile of keys walks over the queries
//     |  tile 1    [    \  |         ]                      that see it
//     v  tile 2    [       | \       ]   ahead = 0: query t sees keys 0 to t
//
//     ahead > 0    the queries are later than the keys: the diagonal moves to the right, and beyond
//                  the last key: all of them are seen
//     ahead < 0    the first queries see nothing: o = 0, L = -infinity, and no gradient
//
// With bf16 inputs o, dq, dk and dv are f32 sums, which the op rounds.
// Letters: T queries (as many keys), d numbers per head, m largest score, l sum of e^(score - m),
// L = m + log l, BQ and BK the tile. FLOPs are counted by the ops, not here.
// References: as attention_blockwise.hpp.
#pragma once

#include <cmath>

#include "yotta/core/matmul.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta::detail {

// Tiles of BQ queries by BK keys. At d = 64 on one core, 64 by 256 was the fastest of 24 shapes
// tried, from 42 by 64 to 256 by 256.
inline constexpr int64_t attention_BQ = 64, attention_BK = 256;
static_assert(attention_BQ <= attention_BK,
              "a query that sees none of the first BK keys sees none at all");

// Rows [begin, end) of a matrix.
template <class T>
MatrixView<T> rows_of(MatrixView<T> x, int64_t begin, int64_t end) {
  return sub_matrix(x, begin, 0, end - begin, x.cols);
}

// What one head's forward pass works on.
template <class Number, class Real = Computed<Number>>
struct BlockwiseHead {
  MatrixView<const Number> q, k, v;  // (T, d)
  MatrixView<Real> o;                // (T, d)
  Real* log_sum_exp;                 // (T)
  int64_t ahead;                     // positions from the first key to the first query
};

// How many of `keys` keys, from key j on, query t sees: a prefix of them.
constexpr int64_t keys_seen(int64_t t, int64_t ahead, int64_t j, int64_t keys) {
  return std::clamp<int64_t>(t + ahead + 1 - j, 0, keys);
}

// One row of a tile: its `visible` scores become e^(score - m); m, l and the row of o follow.
template <class Real>
void online_softmax_row(Real* scores, int64_t visible, int64_t width, Real factor, bool first,
                        Real& m, Real& l, Real* o, int64_t d) {
  const Real most = factor * largest(static_cast<const Real*>(scores), visible);
  const Real m_new = first ? most : std::max(m, most);
  const Real sum = exp_row(static_cast<const Real*>(scores), visible, factor, m_new, scores);
  std::fill(scores + visible, scores + width, Real{0});
  const Real kept = first ? Real{0} : std::exp(m - m_new);
  if (!first && kept != Real{1}) scale_row(o, d, kept);
  l = first ? sum : l * kept + sum;
  m = m_new;
}

// Queries [begin, end) of one head.
template <class Number, class Real>
void blockwise_tile(const BlockwiseHead<Number, Real>& head, int64_t begin, int64_t end,
                    Real* scores) {
  const Real factor = Real{1} / std::sqrt(static_cast<Real>(head.q.cols));
  const MatrixView<const Number> q = rows_of(head.q, begin, end);
  const MatrixView<Real> o = rows_of(head.o, begin, end);
  const int64_t seen = keys_seen(end - 1, head.ahead, 0, head.k.rows);  // by the last query
  Real m[attention_BQ], l[attention_BQ];
  std::fill_n(m, q.rows, -static_cast<Real>(__builtin_inf()));
  std::fill_n(l, q.rows, Real{0});
  for (int64_t r = 0; r < q.rows && seen == 0; ++r) std::fill_n(&o(r, 0), o.cols, Real{0});
  for (int64_t j = 0; j < seen; j += attention_BK) {
    const int64_t keys = std::min(j + attention_BK, seen) - j;  // up to the diagonal
    matmul(q, transposed(rows_of(head.k, j, j + keys)), row_major(scores, q.rows, keys),
           Into::overwrite);
    for (int64_t r = 0; r < q.rows; ++r)
      online_softmax_row(scores + r * keys, keys_seen(begin + r, head.ahead, j, keys), keys, factor,
                         j == 0, m[r], l[r], &o(r, 0), o.cols);
    matmul(row_major<const Real>(scores, q.rows, keys), rows_of(head.v, j, j + keys), o,
           j == 0 ? Into::overwrite : Into::accumulate);
  }
  for (int64_t r = 0; r < q.rows; ++r) {
    scale_row(&o(r, 0), o.cols, l[r] == 0 ? Real{0} : Real{1} / l[r]);
    head.log_sum_exp[begin + r] = m[r] + std::log(l[r]);
  }
}

// What one query head's backward pass works on.
template <class Number, class Real = Computed<Number>>
struct BlockwiseBackwardHead {
  MatrixView<const Number> q, k, v, o, dout;  // (T, d)
  const Real* log_sum_exp;                    // (T)
  MatrixView<Real> dq, dk, dv;                // (T, d); added to
  Real* D;                                    // (T) scratch: dout . o
  int64_t ahead;                              // positions from the first key to the first query
};

// Recomputes P (rows, keys) of a tile and turns dP, in place, into dS.
template <class Number, class Real>
void blockwise_scores(const BlockwiseBackwardHead<Number, Real>& head, int64_t i, int64_t rows,
                      int64_t j, int64_t keys, Real factor, Real* P, Real* dS) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t visible = keys_seen(i + r, head.ahead, j, keys);
    const Real L = head.log_sum_exp[i + r], D = head.D[i + r];
    Real *p = P + r * keys, *ds = dS + r * keys;
    for_lanes<Real>(visible, [&](int64_t c, auto count) {
      const Vector<Real> e =
          vector_exp<Real>(load(static_cast<const Real*>(p) + c, count) * factor - L);
      const Vector<Real> d = load(static_cast<const Real*>(ds) + c, count);
      store(p + c, e, count);
      store(ds + c, factor * e * (d - D), count);
    });
    std::fill(p + visible, p + keys, Real{0});
    std::fill(ds + visible, ds + keys, Real{0});
  }
}

// One query head: for each tile of keys, all tiles of queries that see it.
template <class Number, class Real>
void blockwise_backward_head(const BlockwiseBackwardHead<Number, Real>& head, Real* P, Real* dS) {
  const int64_t T = head.q.rows, d = head.q.cols;
  const Real factor = Real{1} / std::sqrt(static_cast<Real>(d));
  for (int64_t t = 0; t < T; ++t)
    head.D[t] = sum_lanes<Real>(d, [&](int64_t c, auto count) {
      return load(&head.dout(t, c), count) * load(&head.o(t, c), count);
    });
  const int64_t seen = keys_seen(T - 1, head.ahead, 0, T);  // by the last query
  for (int64_t j = 0; j < seen; j += attention_BK) {
    const int64_t first = std::max<int64_t>(0, j - head.ahead);  // the first query that sees key j
    for (int64_t i = first - first % attention_BQ; i < T; i += attention_BQ) {
      const int64_t end = std::min(i + attention_BQ, T), rows = end - i;
      const int64_t keys = keys_seen(end - 1, head.ahead, j, std::min(attention_BK, T - j));
      const MatrixView<const Number> q = rows_of(head.q, i, end), dout = rows_of(head.dout, i, end);
      const MatrixView<const Number> k = rows_of(head.k, j, j + keys),
                                     v = rows_of(head.v, j, j + keys);
      matmul(q, transposed(k), row_major(P, rows, keys), Into::overwrite);
      matmul(dout, transposed(v), row_major(dS, rows, keys), Into::overwrite);
      blockwise_scores(head, i, rows, j, keys, factor, P, dS);
      const MatrixView<const Real> p = row_major<const Real>(P, rows, keys);
      const MatrixView<const Real> ds = row_major<const Real>(dS, rows, keys);
      matmul(transposed(p), dout, rows_of(head.dv, j, j + keys), Into::accumulate);
      matmul(transposed(ds), q, rows_of(head.dk, j, j + keys), Into::accumulate);
      matmul(ds, k, rows_of(head.dq, i, end), Into::accumulate);
    }
  }
}

}  // namespace yotta::detail
