// Flash attention: exact attention without the (T, T) matrix of scores.
//
// attention_plain writes P = softmax(Q K' / sqrt(d)) to memory and reads it again: T^2 numbers a
// head, where its inputs have T d. Here a tile of scores is used where it was made, in a cache.
//
//          keys, BK at a time         for each tile of BQ queries: go over the keys that it sees.
//           0    1    2    3              S = q k'                             (BQ, BK), one tile
//    q  0 [ \ ]  .    .    .              online softmax of its rows: P = e^(S - m)
//       1 [   ][ \ ]  .    .              o = o e^(m_old - m) + P v            (BQ, d)
//       2 [   ][   ][ \ ]  .          tiles above the diagonal (.) are not computed: of a causal
//       3 [   ][   ][   ][ \ ]        mask half the work
//
// Softmax needs the largest score and the sum before its first result. Online softmax does not:
//     m = max s_j          the largest score so far
//     l = sum e^(s_j - m)  and  o = sum e^(s_j - m) v_j  over the keys so far
//     a larger score m_new:  e^(s_j - m_new) = e^(s_j - m) e^(m - m_new)  for every key so far,
//     so  l becomes l e^(m - m_new) + sum of the new e^(s_j - m_new),  and o likewise;
//     at the end O = o / l, and L = m + log l is kept for backward.
//
// Backward: P = e^(S - L) is made again from q, k and L, tile by tile. Softmax's own backward needs
// the row sums of dP P over all keys. They equal D = rowsum(dO * O), known before any tile:
//     sum_j P_ij dP_ij = sum_j P_ij (dO_i . V_j) = dO_i . (sum_j P_ij V_j) = dO_i . O_i
// Then dS = P (dP - D), and dQ, dK and dV are three more matmuls of the tile.
//
// With bf16 inputs scores, L and sums are f32. A whole o, dq, dk and dv are rounded to bf16 once; a
// block's are parts of sums and stay f32.
// Cost: forward 2 matmuls, 4 T^2 d FLOPs a head, backward 5, 10 T^2 d; half of each if causal.
// Memory: L, B H T numbers, beside the results. A thread holds copies of one head's k and v, and in
// backward of k, dk and dv, in the order of the register kernel (nn/cpu/tile_matmul.hpp): O(T d).
// Contract: T is any number; a query that sees no key gets o = 0, L = -infinity and no gradient.
// Letters: B batch, T sequence, H query heads, Hkv key and value heads, d numbers per head.
// References: Milakov and Gimelshein (2018), online softmax; Rabe and Staats (2021); Dao et al.
// (2022), FlashAttention; Dao (2023), FlashAttention-2.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "yotta/nn/attention.hpp"
#include "yotta/nn/cpu/softmax_rows.hpp"
#include "yotta/nn/cpu/tile_matmul.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta {

// ---- what the loops below are told: a mask, and a change of scores -----------------------------

// A query sees itself and what is before it; query 0 is `ahead` positions after key 0. With ahead
// >= keys each query sees all keys: no mask.
//
// Any struct with these three members is a mask.
struct CausalMask {
  int64_t keys, ahead = 0;

  // Queries that are computed together, at most flash_BQ.
  int64_t queries() const { return flash_BQ; }

  // Whether query t sees key j.
  bool operator()(int64_t t, int64_t j) const { return j <= t + ahead; }

  // Calls visit(j, n, whole) for runs of keys [j, j + n) that together have every key that one of
  // the queries [begin, end) sees. `whole`: each of them sees all of the run, so nobody asks for
  // single keys. A run lies in one tile of keys, [i BK, (i + 1) BK).
  template <class Visit>
  void runs(int64_t begin, int64_t end, Visit&& visit) const {
    const int64_t seen = std::clamp<int64_t>(end + ahead, 0, keys);  // by the last query
    for (int64_t j = 0; j < seen; j += flash_BK) {
      const int64_t n = std::min(flash_BK, seen - j);
      visit(j, n, j + n <= begin + ahead + 1);
    }
  }
};

// Scores stay as they are. Another struct with these members changes the score s = q_t . k_j /
// sqrt(d) of query t and key j, and passes its gradient back. If it has end_of_row(), that is
// called after backward() has been for the scores of one row of a tile.
struct SameScore {
  template <class Real>
  Real operator()(Real s, int64_t /*t*/, int64_t /*j*/) const {
    return s;
  }
  // dL/ds, from the gradient `d` of what operator() made of s.
  template <class Real>
  Real backward(Real d, Real /*s*/, int64_t /*t*/, int64_t /*j*/) const {
    return d;
  }
};

// ---- forward -----------------------------------------------------------------------------------

// The sums of one query over the keys so far, beside its o.
template <class Real>
struct OnlineSums {
  Real m = -std::numeric_limits<Real>::infinity(), l = 0;
};

// By how much scores are shifted before e^score is taken. A query that has seen no key has m and L
// of -infinity, and its hidden scores are -infinity: e^(-inf - 0) = 0, where -inf - -inf is NaN.
template <class Real>
Real shift_of(Real m) {
  return m == -std::numeric_limits<Real>::infinity() ? Real{0} : m;
}

// Takes n more scores, times `factor`, into a query's sums; they become e^(score - m). o (d). The
// loop below does this for many queries at once: online_softmax_rows (nn/cpu/softmax_rows.hpp).
template <class Real>
void online_softmax_row(Real* scores, int64_t n, Real factor, OnlineSums<Real>& sums, Real* o,
                        int64_t d) {
  const Real m = std::max(sums.m, factor * largest(static_cast<const Real*>(scores), n));
  const Real shift = shift_of(m);
  const Real sum = detail::exp_row(static_cast<const Real*>(scores), n, factor, shift, scores);
  const Real kept = m == sums.m ? Real{1} : std::exp(sums.m - shift);  // what the sums are worth
  if (kept != Real{1}) detail::scale_row(o, d, kept);
  sums = {m, sums.l * kept + sum};
}

// Two parts of one query's sum, over different keys, in any order: o and L are the part's own
// result. What each weighs in the whole, and the whole's L:
//     L = log(e^L_a + e^L_b)        o = e^(L_a - L) o_a + e^(L_b - L) o_b
// A part that saw nothing has L = -infinity and weighs nothing.
template <class Real>
struct MergeWeights {
  Real first = 0, second = 0, log_sum_exp = 0;
};
template <class Real>
YOTTA_HOST_DEVICE MergeWeights<Real> merge_weights(Real first, Real second) {
  const Real most = std::max(first, second);
  if (most == -std::numeric_limits<Real>::infinity()) return {0, 0, most};  // neither saw a key
  const Real a = std::exp(first - most), b = std::exp(second - most);
  return {a / (a + b), b / (a + b), most + std::log(a + b)};
}

// What becomes of n raw scores of query t, from key j on, before softmax: times `factor`, changed,
// and -infinity where the mask hides the key. Returns the factor that is left to be applied.
template <class Real, class Mask, class ScoreMod>
Real change_scores(Real* scores, int64_t t, int64_t j, int64_t n, bool whole, Real factor,
                   const Mask& mask, const ScoreMod& mod) {
  constexpr bool changes = !std::is_same_v<ScoreMod, SameScore>;
  for (int64_t c = 0; c < n && changes; ++c) scores[c] = mod(factor * scores[c], t, j + c);
  for (int64_t c = 0; c < n && !whole; ++c)  // without a branch
    scores[c] = mask(t, j + c) ? scores[c] : -std::numeric_limits<Real>::infinity();
  return changes ? Real{1} : factor;
}

// What one head works on; keys may be more or fewer than queries.
template <class Number, class Real = Computed<Number>>
struct FlashHead {
  MatrixView<const Number> q, k, v;  // (T, d)
  MatrixView<Real> o;                // (T, d)
  Real* log_sum_exp;                 // (T)
};

// What the tiles of queries of one head share: k and v in the order of the register kernel, and
// room for a tile of scores.
template <class Real>
struct FlashKeys {
  detail::TransposedTiles<Real> k;
  detail::PaddedRows<Real> v;
  detail::ScoreTile<Real> S;
};

// A tile of queries, from `begin` on, goes over its keys. q' (d, rows); o (rows, d) is zero before,
// and L (rows) is written; factor: 1 / sqrt(d).
template <class Real, class Mask, class ScoreMod>
void flash_tile(const FlashKeys<Real>& keys, MatrixView<const Real> q_columns, int64_t begin,
                MatrixView<Real> o, Real* L, Real factor, const Mask& mask, const ScoreMod& mod) {
  const auto& [k, v, S] = keys;
  std::array<OnlineSums<Real>, flash_BQ> sums = {};
  mask.runs(begin, begin + o.rows, [&](int64_t j, int64_t n, bool whole) {
    detail::tile_matmul(transposed(q_columns), k.columns(j, n), S.part(o.rows, n), Into::overwrite);
    Real left = factor;
    for (int64_t r = 0; r < o.rows; ++r)
      left = change_scores(S.row(r), begin + r, j, n, whole, factor, mask, mod);
    detail::online_softmax_rows(S, n, left, sums.data(), o);
    detail::tile_matmul(S.read(o.rows, n), v.read(j, j + n), o, Into::accumulate);
  });
  for (int64_t r = 0; r < o.rows; ++r) {
    const auto [m, l] = sums[static_cast<size_t>(r)];
    detail::scale_row(&o(r, 0), o.cols, l == 0 ? Real{0} : Real{1} / l);
    L[r] = m + std::log(l);
  }
}

// Queries [first, last) of one head.
template <class Number, class Mask, class ScoreMod>
void flash_forward(const FlashHead<Number>& head, int64_t first, int64_t last, const Mask& mask,
                   const ScoreMod& mod) {
  using Real = Computed<Number>;
  const Real factor = Real{1} / std::sqrt(static_cast<Real>(head.q.cols));
  const FlashKeys<Real> keys{
      detail::TransposedTiles<Real>(head.k), detail::PaddedRows<Real>(head.v), {}};
  for (int64_t begin = first; begin < last; begin += mask.queries()) {
    const int64_t end = std::min(begin + mask.queries(), last), rows = end - begin;
    const detail::TransposedTiles<Real> q(detail::rows_of(head.q, begin, end));
    const detail::PaddedRows<Real> o(rows, head.q.cols);
    const int64_t next =
        std::min(end + mask.queries(), last);  // fetched while this one is computed
    keys.S.meanwhile(detail::RowsAhead(detail::rows_of(head.q, end, next)),
                     detail::RowsAhead(detail::rows_of(head.o, end, next)));
    flash_tile(keys, q.columns(0, rows), begin, o.rows(0, rows), head.log_sum_exp + begin, factor,
               mask, mod);
    o.copy_to(detail::rows_of(head.o, begin, end));
  }
}

// ---- backward ----------------------------------------------------------------------------------

// One row of a tile: its n raw scores become P, and dP becomes their gradient. L is the row's
// log-sum-exp, D = dO . O.
template <class Real, class Mask, class ScoreMod>
void flash_backward_row(Real* scores, Real* dP, int64_t t, int64_t j, int64_t n, bool whole,
                        Real factor, Real L, Real D, const Mask& mask, const ScoreMod& mod) {
  constexpr bool changes = !std::is_same_v<ScoreMod, SameScore>;
  Real raw[flash_BK];
  if (changes) std::copy_n(scores, n, raw);
  const Real left = change_scores(scores, t, j, n, whole, factor, mask, mod);
  const Real shift = shift_of(L), right = changes ? Real{1} : factor;
  for_lanes<Real>(n, [&](int64_t c, auto count) {
    const Vector<Real> s = load(static_cast<const Real*>(scores) + c, count);
    const Vector<Real> dp = load(static_cast<const Real*>(dP) + c, count);
    const Vector<Real> p = vector_exp<Real>(s * left - shift);
    store(scores + c, p, count);
    store(dP + c, right * p * (dp - D), count);
  });
  for (int64_t c = 0; c < n && changes; ++c)
    dP[c] = factor * mod.backward(dP[c], factor * raw[c], t, j + c);
}

// What one query head's backward pass works on.
template <class Number, class Real = Computed<Number>>
struct FlashBackwardHead {
  MatrixView<const Number> q, k, v, o, dout;  // (T, d)
  const Real* log_sum_exp;                    // (T)
  MatrixView<Real> dq, dk, dv;                // (T, d); added to
};

// All queries of one head. The loops are those of forward; five matmuls a tile.
template <class Number, class Mask, class ScoreMod, class Real = Computed<Number>>
void flash_backward(const FlashBackwardHead<Number>& head, const Mask& mask, const ScoreMod& mod) {
  const int64_t T = head.q.rows, d = head.q.cols;
  const Real root = std::sqrt(static_cast<Real>(d)), factor = Real{1} / root;
  const detail::TransposedTiles<Real> k_columns(head.k), v_columns(head.v);
  const detail::PaddedRows<Real> k(head.k), dk(head.dk), dv(head.dv);
  const detail::ScoreTile<Real> P, dS;
  for (int64_t begin = 0; begin < T; begin += mask.queries()) {
    const int64_t end = std::min(begin + mask.queries(), T), rows = end - begin;
    const auto tile = [&](auto x) { return detail::rows_of(x, begin, end); };
    const detail::TransposedTiles<Real> q_columns(tile(head.q)), dout_columns(tile(head.dout));
    const detail::PaddedRows<Real> q(tile(head.q)), dout(tile(head.dout)), dq(tile(head.dq));
    std::array<Real, flash_BQ> D;
    for (int64_t r = 0; r < rows; ++r)
      D[static_cast<size_t>(r)] = sum_lanes<Real>(d, [&](int64_t c, auto count) {
        return load(&head.dout(begin + r, c), count) * load(&head.o(begin + r, c), count);
      });
    mask.runs(begin, end, [&](int64_t j, int64_t n, bool whole) {
      detail::tile_matmul(transposed(q_columns.columns(0, rows)), k_columns.columns(j, n),
                          P.part(rows, n), Into::overwrite);
      detail::tile_matmul(transposed(dout_columns.columns(0, rows)), v_columns.columns(j, n),
                          dS.part(rows, n), Into::overwrite);
      for (int64_t r = 0; r < rows; ++r) {
        flash_backward_row(P.row(r), dS.row(r), begin + r, j, n, whole, factor,
                           head.log_sum_exp[begin + r], D[static_cast<size_t>(r)], mask, mod);
        if constexpr (requires { mod.end_of_row(); }) mod.end_of_row();
      }
      const MatrixView<const Real> p = P.read(rows, n), ds = dS.read(rows, n);
      detail::tile_matmul(transposed(p), dout.read(0, rows), dv.rows(j, j + n), Into::accumulate);
      detail::tile_matmul(transposed(ds), q.read(0, rows), dk.rows(j, j + n), Into::accumulate);
      detail::tile_matmul(ds, k.read(j, j + n), dq.rows(0, rows), Into::accumulate);
    });
    dq.copy_to(tile(head.dq));
  }
  dk.copy_to(head.dk);
  dv.copy_to(head.dv);
}

// ---- the ops -----------------------------------------------------------------------------------

struct FlashAttention {
  Tensor o;            // (B, T, H, d)
  Tensor log_sum_exp;  // (B, H, T), f32 for bf16
};

// `length` queries from column `query` on against as many keys from column `key` on. In the
// sequence the first query is `ahead` positions after the first key. ahead 0: the block is on the
// diagonal; ahead >= length - 1: each query sees all keys.
struct AttentionBlock {
  int64_t query = 0, key = 0, length = 0, ahead = 0;
};

// Twice the number of scores that are seen; a token with itself counts half, so that a block on the
// diagonal has n^2 and the blocks of any cut add up to T^2.
constexpr int64_t twice_seen(const AttentionBlock& block) {
  const int64_t n = block.length;
  const auto before = [n](int64_t u) { return u <= 0 ? 0 : u <= n ? u * u : n * (2 * u - n); };
  return before(n + block.ahead) - before(block.ahead);
}

// `s` are the block's sizes: its T is the length.
constexpr OpCost attention_block_cost(DType dtype, const AttentionSizes& s, int64_t seen_twice) {
  return op_cost("flash_attention", dtype, 2 * s.B * s.H * seen_twice * s.d,
                 query_numbers(s) + 2 * key_numbers(s), query_numbers(s) + s.B * s.H * s.T);
}
constexpr OpCost attention_block_backward_cost(DType dtype, const AttentionSizes& s,
                                               int64_t seen_twice) {
  return op_cost("flash_attention_backward", dtype, 5 * s.B * s.H * seen_twice * s.d,
                 3 * query_numbers(s) + 2 * key_numbers(s) + s.B * s.H * s.T,
                 query_numbers(s) + 2 * key_numbers(s));
}
// Numbers that one head's forward pass moves between a slow memory and a fast one in which a tile
// of BQ queries stays: q, o and L once, k and v once for each tile. Every query sees every key.
constexpr int64_t flash_numbers_moved(int64_t T, int64_t d, int64_t BQ) {
  return 2 * T * d + T + ceil_div(T, BQ) * 2 * T * d;
}
// To merge two parts of the sums of `rows` rows.
constexpr OpCost attention_merge_cost(DType dtype, int64_t rows, int64_t d) {
  return op_cost("attention_merge", dtype, (3 * d + 8) * rows, 2 * rows * (d + 1), rows * (d + 1));
}

// A block of attention: o (B, n, H, d) and L (B, H, n) of its n queries over its keys alone. o is
// f32 for bf16: a part of a sum.
FlashAttention attention_block(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionBlock& block, Where where = Where::current());

// o (B, T, H, d) of q (B, T, H, d), k and v (B, T, Hkv, d): the block that is the whole.
FlashAttention flash_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               Where where = Where::current());

// Adds a block's part of dq, dk and dv to `d`, in the block's columns; dout (B, T, H, d). `saved`
// is what all blocks of these queries gave together: o (B, T, H, d), L (B, H, T). `d` is f32 for
// bf16: zero_sums() makes it.
void attention_block_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                              const FlashAttention& saved, const AttentionBlock& block,
                              AttentionGradients& d, Where where = Where::current());

// Zeros to which blocks add: of x's shape, f32 for bf16.
Tensor zero_sums(const Tensor& x, Where where = Where::current());

// dq, dk, dv from dout (B, T, H, d) and what the forward pass kept.
AttentionGradients flash_attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const FlashAttention& saved,
                                            Where where = Where::current());

// ---- parts: the same queries against other keys ------------------------------------------------

// merge() of one row: one query of one head, in L's order (sequence, head, token). `team` is one
// thread of a CPU or one warp of a GPU; `count`: so many numbers at once (nn/cpu/body.hpp).
template <class Real>
struct MergeRow {
  int64_t n, H, d;
  Real *o, *L;                  // (B, n, H, d), (B, H, n): the sum
  const Real *part_o, *part_L;  // what is merged
  template <class Team>
  YOTTA_BODY void operator()(int64_t i, Team team) const {
    const int64_t b = i / (H * n), h = i / n % H, t = i % n, row = ((b * n + t) * H + h) * d;
    const MergeWeights<Real> w = merge_weights(L[i], part_L[i]);
    team.each(d, [&](int64_t c, auto count) {
      Real* const to = o + row + c;
      store(to, w.first * load(to, count) + w.second * load(part_o + row + c, count), count);
    });
    team.meet();  // all have read L
    team.once([&] { L[i] = w.log_sum_exp; });
  }
};

// Merges one more part of the same queries into sum, in place: o (B, n, H, d) and L (B, H, n) of
// both. An undefined sum takes over the part's storage.
void merge(FlashAttention& sum, const FlashAttention& part, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/flash_attention.ipp"
#endif
