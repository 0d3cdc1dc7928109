// Causal attention block by block: the numbers of attention_plain, without ever holding (T, T).
//
//           keys, BK at a time         forward, for each tile of BQ queries: walk over the keys up to
//            0    1    2    3          it and keep for every query the largest score m so far, the
//     q  0 [ \ ]  .    .    .          sum l of e^(s - m), and o, the sum of e^(s - m) v. When a
//        1 [   ][ \ ]  .    .          larger score turns up, what was summed is worth only
//        2 [   ][   ][ \ ]  .          e^(m - m_new) of itself:
//        3 [   ][   ][   ][ \ ]            l = l e^(m - m_new) + sum of e^(s - m_new);  o likewise
//                                      At the end O = o / l, and L = m + log l is kept.
//     tiles above the diagonal (.) are not computed: half the work of plain
//
// Backward: P = e^(S - L) is computed again from q, k and L, tile by tile. Softmax needs the row sums of
// dP P; they equal D_i = dO_i . O_i, since sum_j P_ij (dO_i . V_j) = dO_i . (sum_j P_ij V_j). Then
//     dV_j += P' dO_i,  dS = P (dO V' - D),  dQ_i += dS K_j / sqrt(d),  dK_j += dS' Q_i / sqrt(d).
//
// Cost: forward 2 T^2 d FLOPs a head (4 T^2 d, causal half), backward 5 matmuls, 5 T^2 d: 2.5 times.
// Memory: q, k, v, o and L, B H T numbers. A tile of BQ * BK scores stays in L2 (on a GPU: in shared
// memory, lesson 07).
// Letters: B batch, T sequence, H query heads, Hkv key and value heads, d numbers a head.
// References: Milakov and Gimelshein (2018), online softmax; Dao et al. (2022), FlashAttention;
// Dao (2023), FlashAttention-2.
#pragma once

#include "yotta/nn/attention.hpp"

namespace yotta {

struct BlockwiseAttention {
  Tensor o;            // (B, T, H, d)
  Tensor log_sum_exp;  // (B, H, T)
};

constexpr int64_t row_numbers(const AttentionSizes& s) { return s.B * s.H * s.T; }
constexpr OpCost attention_blockwise_cost(DType dtype, const AttentionSizes& s) {
  return op_cost("attention_blockwise", dtype, attention_flops(s, 2),
                 query_numbers(s) + 2 * key_numbers(s), query_numbers(s) + row_numbers(s));
}
constexpr OpCost attention_blockwise_backward_cost(DType dtype, const AttentionSizes& s) {
  return op_cost("attention_blockwise_backward", dtype, attention_flops(s, 5),
                 3 * query_numbers(s) + 2 * key_numbers(s) + row_numbers(s),
                 query_numbers(s) + 2 * key_numbers(s));
}

namespace detail {

// Tiles of BQ queries by BK keys. At d = 64 on one core, 64 by 256 was the fastest of 24 shapes tried,
// from 42 by 64 to 256 by 256.
inline constexpr int64_t attention_BQ = 64, attention_BK = 256;
static_assert(attention_BK % attention_BQ == 0,
              "every query of a tile sees the first key it meets");

// Rows [begin, end) of a matrix.
template <class T>
MatrixView<T> rows_of(MatrixView<T> x, int64_t begin, int64_t end) {
  return sub_matrix(x, begin, 0, end - begin, x.cols);
}

// What one head's forward pass works on.
template <class Real>
struct BlockwiseHead {
  MatrixView<const Real> q, k, v;  // (T, d)
  MatrixView<Real> o;              // (T, d)
  Real* log_sum_exp;               // (T)
};

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
template <class Real>
void blockwise_tile(const BlockwiseHead<Real>& head, int64_t begin, int64_t end, Real* scores) {
  const Real factor = Real{1} / std::sqrt(static_cast<Real>(head.q.cols));
  const MatrixView<const Real> q = rows_of(head.q, begin, end);
  const MatrixView<Real> o = rows_of(head.o, begin, end);
  Real m[attention_BQ], l[attention_BQ];
  for (int64_t j = 0; j < end; j += attention_BK) {
    const int64_t keys = std::min(j + attention_BK, end) - j;  // up to the diagonal
    matmul(q, transposed(rows_of(head.k, j, j + keys)), row_major(scores, q.rows, keys),
           Into::overwrite);
    for (int64_t r = 0; r < q.rows; ++r)
      online_softmax_row(scores + r * keys, std::min(keys, begin + r + 1 - j), keys, factor, j == 0,
                         m[r], l[r], &o(r, 0), o.cols);
    matmul(row_major<const Real>(scores, q.rows, keys), rows_of(head.v, j, j + keys), o,
           j == 0 ? Into::overwrite : Into::accumulate);
  }
  for (int64_t r = 0; r < q.rows; ++r) {
    scale_row(&o(r, 0), o.cols, Real{1} / l[r]);
    head.log_sum_exp[begin + r] = m[r] + std::log(l[r]);
  }
}

// What one query head's backward pass works on.
template <class Real>
struct BlockwiseBackwardHead {
  MatrixView<const Real> q, k, v, o, dout;  // (T, d)
  const Real* log_sum_exp;                  // (T)
  MatrixView<Real> dq, dk, dv;              // (T, d); dk and dv are added to
  Real* D;                                  // (T) scratch: dout . o
};

// Recomputes P (rows, keys) of a tile and turns dP, in place, into dS.
template <class Real>
void blockwise_scores(const BlockwiseBackwardHead<Real>& head, int64_t i, int64_t rows, int64_t j,
                      int64_t keys, Real factor, Real* P, Real* dS) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t visible = std::min(keys, i + r + 1 - j);  // i >= j: at least one
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
template <class Real>
void blockwise_backward_head(const BlockwiseBackwardHead<Real>& head, Real* P, Real* dS) {
  const int64_t T = head.q.rows, d = head.q.cols;
  const Real factor = Real{1} / std::sqrt(static_cast<Real>(d));
  for (int64_t t = 0; t < T; ++t)
    head.D[t] = sum_lanes<Real>(d, [&](int64_t c, auto count) {
      return load(&head.dout(t, c), count) * load(&head.o(t, c), count);
    });
  for (int64_t j = 0; j < T; j += attention_BK)
    for (int64_t i = j; i < T; i += attention_BQ) {
      const int64_t end = std::min(i + attention_BQ, T), rows = end - i;
      const int64_t keys = std::min(j + attention_BK, end) - j;
      const MatrixView<const Real> q = rows_of(head.q, i, end), dout = rows_of(head.dout, i, end);
      const MatrixView<const Real> k = rows_of(head.k, j, j + keys),
                                   v = rows_of(head.v, j, j + keys);
      matmul(q, transposed(k), row_major(P, rows, keys), Into::overwrite);
      matmul(dout, transposed(v), row_major(dS, rows, keys), Into::overwrite);
      blockwise_scores(head, i, rows, j, keys, factor, P, dS);
      const MatrixView<const Real> p = row_major<const Real>(P, rows, keys);
      const MatrixView<const Real> ds = row_major<const Real>(dS, rows, keys);
      matmul(transposed(p), dout, rows_of(head.dv, j, j + keys), Into::accumulate);
      matmul(transposed(ds), q, rows_of(head.dk, j, j + keys), Into::accumulate);
      matmul(ds, k, rows_of(head.dq, i, end), j == 0 ? Into::overwrite : Into::accumulate);
    }
}

}  // namespace detail

// o (B, T, H, d) of q (B, T, H, d), k and v (B, T, Hkv, d).
inline BlockwiseAttention attention_blockwise(const Tensor& q, const Tensor& k, const Tensor& v,
                                              Where where = Where::current()) {
  const AttentionSizes s = attention_sizes("attention_blockwise", q, k, v, where);
  charge(attention_blockwise_cost(q.dtype(), s));
  BlockwiseAttention out{empty_like(q, where), empty_beside(q, {s.B, s.H, s.T}, q.dtype(), where)};
  if (q.device() == Device::meta) return out;
  visit_real(q.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real *Q = q.data<Real>(where), *K = k.data<Real>(where), *V = v.data<Real>(where);
    Real *O = out.o.data<Real>(), *L = out.log_sum_exp.data<Real>();
    parallel_for(s.B * s.H, 1, [&](int64_t begin, int64_t end) {
      const PackBuffer<Real> scores(detail::attention_BQ * detail::attention_BK);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / s.H, h = i % s.H, shared = h / s.group();
        const detail::BlockwiseHead<Real> head{
            detail::head_of(Q, s, s.H, b, h), detail::head_of(K, s, s.Hkv, b, shared),
            detail::head_of(V, s, s.Hkv, b, shared), detail::head_of(O, s, s.H, b, h), L + i * s.T};
        for (int64_t t = 0; t < s.T; t += detail::attention_BQ)
          detail::blockwise_tile(head, t, std::min(t + detail::attention_BQ, s.T), scores.data());
      }
    });
  });
  return out;
}

// dq, dk, dv from dout (B, T, H, d) and what the forward pass kept.
inline AttentionGradients attention_blockwise_backward(const Tensor& dout, const Tensor& q,
                                                       const Tensor& k, const Tensor& v,
                                                       const BlockwiseAttention& saved,
                                                       Where where = Where::current()) {
  const char* operation = "attention_blockwise_backward";
  const AttentionSizes s = attention_sizes(operation, q, k, v, where);
  expect_same(operation, "dout", dout, "q", q, where);
  expect_same(operation, "o", saved.o, "q", q, where);
  expect_shape(operation, "log_sum_exp", saved.log_sum_exp, {s.B, s.H, s.T}, where);
  charge(attention_blockwise_backward_cost(q.dtype(), s));
  AttentionGradients d{empty_like(q, where), zeros_like(k, where), zeros_like(v, where)};
  if (q.device() == Device::meta) return d;
  visit_real(q.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real *Q = q.data<Real>(where), *K = k.data<Real>(where), *V = v.data<Real>(where);
    const Real *O = saved.o.data<Real>(where), *dO = dout.data<Real>(where);
    const Real* L = saved.log_sum_exp.data<Real>(where);
    Real *dQ = d.dq.data<Real>(), *dK = d.dk.data<Real>(), *dV = d.dv.data<Real>();
    parallel_for(s.B * s.Hkv, 1, [&](int64_t begin, int64_t end) {
      constexpr int64_t tile = detail::attention_BQ * detail::attention_BK;
      const PackBuffer<Real> scratch(2 * tile + s.T);
      for (int64_t i = begin * s.group(); i < end * s.group(); ++i) {
        const int64_t b = i / s.H, h = i % s.H, shared = h / s.group();
        detail::blockwise_backward_head<Real>(
            {detail::head_of(Q, s, s.H, b, h), detail::head_of(K, s, s.Hkv, b, shared),
             detail::head_of(V, s, s.Hkv, b, shared), detail::head_of(O, s, s.H, b, h),
             detail::head_of(dO, s, s.H, b, h), L + i * s.T, detail::head_of(dQ, s, s.H, b, h),
             detail::head_of(dK, s, s.Hkv, b, shared), detail::head_of(dV, s, s.Hkv, b, shared),
             scratch.data() + 2 * tile},
            scratch.data(), scratch.data() + tile);
      }
    });
  });
  return d;
}

}  // namespace yotta
