// Causal attention block by block: the numbers of attention_plain, without ever holding (T, T).
//
//          keys, BK at a time         forward, for each tile of BQ queries: go over the keys before
//           0    1    2    3          it and keep for every query the largest score m so far, the
//    q  0 [ \ ]  .    .    .          sum l of e^(s - m), and o, the sum of e^(s - m) v. When a
//       1 [   ][ \ ]  .    .          larger score turns up, what was summed is worth only
//       2 [   ][   ][ \ ]  .          e^(m - m_new) of itself:
//       3 [   ][   ][   ][ \ ]            l = l e^(m - m_new) + sum of e^(s - m_new);  o likewise
//                                     At the end O = o / l, and L = m + log l is kept.
//    tiles above the diagonal (.) are not computed: half the work of plain
//
// Backward: P = e^(S - L) is computed again from q, k and L, tile by tile. Softmax needs the row
// sums of dP P; they equal D_i = dO_i . O_i, since
// sum_j P_ij (dO_i . V_j) = dO_i . (sum_j P_ij V_j). Then
//     dV_j += P' dO_i,  dS = P (dO V' - D),  dQ_i += dS K_j / sqrt(d),  dK_j += dS' Q_i / sqrt(d).
//
// The same code computes one block of a larger attention (AttentionBlock): some of the queries
// against some of the keys, which are elsewhere in the sequence. A query that sees none of them
// gets o = 0 and L = -infinity: an empty sum. Ring attention merges such blocks.
//
// With bf16 inputs scores, L and sums are f32. A whole o, dq, dk and dv are rounded to bf16 once; a
// block's are parts of sums and stay f32.
// Cost: forward 2 T^2 d FLOPs per head (4 T^2 d, causal half), backward 5 matmuls, 5 T^2 d.
// Memory: q, k, v, o and L, B H T numbers. A tile of BQ * BK scores stays in L2 (on a GPU: in
// shared memory, lesson 07). The arithmetic of one head, tile by tile, is in attention_tiles.hpp.
// Letters: B batch, T sequence, H query heads, Hkv key and value heads, d numbers per head.
// References: Milakov and Gimelshein (2018), online softmax; Dao et al. (2022), FlashAttention;
// Dao (2023), FlashAttention-2.
#pragma once

#include "yotta/nn/attention.hpp"

#if YOTTA_BODIES_OF(nn_attention)
#include "yotta/nn/cpu/attention_tiles.hpp"
#endif

namespace yotta {

struct BlockwiseAttention {
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

constexpr int64_t row_numbers(const AttentionSizes& s) { return s.B * s.H * s.T; }

// `s` are the block's sizes: its T is the length.
constexpr OpCost attention_block_cost(DType dtype, const AttentionSizes& s, int64_t seen_twice) {
  return op_cost("attention_blockwise", dtype, 2 * s.B * s.H * seen_twice * s.d,
                 query_numbers(s) + 2 * key_numbers(s), query_numbers(s) + row_numbers(s));
}
constexpr OpCost attention_block_backward_cost(DType dtype, const AttentionSizes& s,
                                               int64_t seen_twice) {
  return op_cost("attention_blockwise_backward", dtype, 5 * s.B * s.H * seen_twice * s.d,
                 3 * query_numbers(s) + 2 * key_numbers(s) + row_numbers(s),
                 query_numbers(s) + 2 * key_numbers(s));
}
// To merge two parts of the sums of `rows` rows (parallel/ring_attention.hpp).
constexpr OpCost attention_merge_cost(DType dtype, int64_t rows, int64_t d) {
  return op_cost("attention_merge", dtype, (3 * d + 8) * rows, 2 * rows * (d + 1), rows * (d + 1));
}

// A block of attention: o (B, n, H, d) and L (B, H, n) of its n queries over its keys alone. o is
// f32 for bf16: a part of a sum.
YOTTA_API BlockwiseAttention attention_block(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const AttentionBlock& block,
                                             Where where = Where::current());

// o (B, T, H, d) of q (B, T, H, d), k and v (B, T, Hkv, d): the block that is the whole.
YOTTA_API BlockwiseAttention attention_blockwise(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 Where where = Where::current());

// Adds a block's part of dq, dk and dv to `d`, in the block's columns; dout (B, T, H, d). `saved`
// is what all blocks of these queries gave together: o (B, T, H, d), L (B, H, T). `d` is f32 for
// bf16: zero_sums() makes it.
YOTTA_API void attention_block_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const BlockwiseAttention& saved,
                                        const AttentionBlock& block, AttentionGradients& d,
                                        Where where = Where::current());

// Zeros to which blocks add: of x's shape, f32 for bf16.
YOTTA_API Tensor zero_sums(const Tensor& x, Where where = Where::current());

// dq, dk, dv from dout (B, T, H, d) and what the forward pass kept.
YOTTA_API AttentionGradients attention_blockwise_backward(const Tensor& dout, const Tensor& q,
                                                          const Tensor& k, const Tensor& v,
                                                          const BlockwiseAttention& saved,
                                                          Where where = Where::current());

#if YOTTA_BODIES_OF(nn_attention)

namespace detail {

// The block's own sizes, or an error.
inline AttentionSizes block_sizes(const char* operation, AttentionSizes s,
                                  const AttentionBlock& block, Where where) {
  if (block.length < 0 || block.query < 0 || block.key < 0 ||
      std::max(block.query, block.key) + block.length > s.T)
    fail(where, "{}: {} queries from column {} and keys from column {} are not in {} columns",
         operation, block.length, block.query, block.key, s.T);
  s.T = block.length;
  return s;
}

inline void expect_sums(const char* what, const Tensor& sums, const Tensor& x, Where where) {
  expect_shape("attention_blockwise_backward", what, sums, x.shape(), where);
  expect_dtype("attention_blockwise_backward", what, sums, computed(x.dtype()), where);
}

// On Device::cuda: one warp per query, and backward also one per key. `s`: sizes of the whole.
inline AttentionRows rows_of_block(const AttentionSizes& s, const AttentionBlock& block) {
  return {s.T, block.length, s.H, s.Hkv, s.d, block.query, block.key, block.ahead};
}

inline void blockwise_rows(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionSizes& s, const AttentionBlock& block,
                           BlockwiseAttention& out, Where where) {
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const auto of = [&](const Tensor& x) { return x.address<Number>(Device::cuda, where); };
    const BlockwiseRow<Number> body{rows_of_block(s, block),
                                    of(q),
                                    of(k),
                                    of(v),
                                    out.o.address<Real>(Device::cuda),
                                    out.log_sum_exp.address<Real>(Device::cuda)};
    run_kernel("attention_blockwise", body, s.B * s.H * block.length, where);
  });
}

inline void blockwise_rows_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                    const Tensor& v, const AttentionSizes& s,
                                    const BlockwiseAttention& saved, const AttentionBlock& block,
                                    AttentionGradients& d, Where where) {
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const auto of = [&](const Tensor& x) { return x.address<Number>(Device::cuda, where); };
    const Real* L = saved.log_sum_exp.address<Real>(Device::cuda, where);
    const BlockwiseSaved<Number> all{
        rows_of_block(s, block), of(q), of(k), of(v), of(saved.o), of(dout), L};
    Real *dQ = d.dq.address<Real>(Device::cuda, where),
         *dK = d.dk.address<Real>(Device::cuda, where);
    Real* dV = d.dv.address<Real>(Device::cuda, where);
    run_kernel("attention_blockwise_backward", BlockwiseQueryGradient<Number>{all, dQ},
               s.B * s.H * block.length, where);
    run_kernel("attention_blockwise_backward", BlockwiseKeyGradient<Number>{all, dK, dV},
               s.B * s.Hkv * block.length, where);
  });
}

}  // namespace detail

BlockwiseAttention attention_block(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionBlock& block, Where where) {
  const char* operation = "attention_blockwise";
  const AttentionSizes s = attention_sizes(operation, q, k, v, where);
  const AttentionSizes n = detail::block_sizes(operation, s, block, where);
  charge(attention_block_cost(q.dtype(), n, twice_seen(block)));
  const DType type = computed(q.dtype());
  BlockwiseAttention out{empty_beside(q, {n.B, n.T, n.H, n.d}, type, where),
                         empty_beside(q, {n.B, n.H, n.T}, type, where)};
  if (q.device() == Device::meta) return out;
  if (q.device() == Device::cuda) {
    detail::blockwise_rows(q, k, v, s, block, out, where);
    return out;
  }
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const Number *Q = q.data<Number>(where), *K = k.data<Number>(where), *V = v.data<Number>(where);
    Real *O = out.o.data<Real>(), *L = out.log_sum_exp.data<Real>();
    parallel_for(s.B * s.H, 1, [&](int64_t begin, int64_t end) {
      const PackBuffer<Real> scores(detail::attention_BQ * detail::attention_BK);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / s.H, h = i % s.H, shared = h / s.group();
        const detail::BlockwiseHead<Number> head{
            detail::rows_of(detail::head_of(Q, s, s.H, b, h), block.query, block.query + n.T),
            detail::rows_of(detail::head_of(K, s, s.Hkv, b, shared), block.key, block.key + n.T),
            detail::rows_of(detail::head_of(V, s, s.Hkv, b, shared), block.key, block.key + n.T),
            detail::head_of(O, n, s.H, b, h),
            L + i * n.T,
            block.ahead};
        for (int64_t t = 0; t < n.T; t += detail::attention_BQ)
          detail::blockwise_tile(head, t, std::min(t + detail::attention_BQ, n.T), scores.data());
      }
    });
  });
  return out;
}

BlockwiseAttention attention_blockwise(const Tensor& q, const Tensor& k, const Tensor& v,
                                       Where where) {
  const AttentionSizes s = attention_sizes("attention_blockwise", q, k, v, where);
  const BlockwiseAttention sums = attention_block(q, k, v, {.length = s.T}, where);
  return {as_type(sums.o, q.dtype()), sums.log_sum_exp};
}

Tensor zero_sums(const Tensor& x, Where where) {
  Tensor made = empty_sums(x, where);
  made.zero();
  return made;
}

void attention_block_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                              const BlockwiseAttention& saved, const AttentionBlock& block,
                              AttentionGradients& d, Where where) {
  const char* operation = "attention_blockwise_backward";
  const AttentionSizes s = attention_sizes(operation, q, k, v, where);
  const AttentionSizes n = detail::block_sizes(operation, s, block, where);
  expect_same(operation, "dout", dout, "q", q, where);
  expect_same(operation, "o", saved.o, "q", q, where);
  expect_shape(operation, "log_sum_exp", saved.log_sum_exp, {s.B, s.H, s.T}, where);
  detail::expect_sums("dq", d.dq, q, where);
  detail::expect_sums("dk", d.dk, k, where);
  detail::expect_sums("dv", d.dv, v, where);
  charge(attention_block_backward_cost(q.dtype(), n, twice_seen(block)));
  if (q.device() == Device::meta) return;
  if (q.device() == Device::cuda)
    return detail::blockwise_rows_backward(dout, q, k, v, s, saved, block, d, where);
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const Number *Q = q.data<Number>(where), *K = k.data<Number>(where), *V = v.data<Number>(where);
    const Number *O = saved.o.data<Number>(where), *dO = dout.data<Number>(where);
    const Real* L = saved.log_sum_exp.data<Real>(where);
    Real *dQ = d.dq.data<Real>(where), *dK = d.dk.data<Real>(where), *dV = d.dv.data<Real>(where);
    parallel_for(s.B * s.Hkv, 1, [&](int64_t begin, int64_t end) {
      constexpr int64_t tile = detail::attention_BQ * detail::attention_BK;
      const PackBuffer<Real> scratch(2 * tile + n.T);
      for (int64_t i = begin * s.group(); i < end * s.group(); ++i) {
        const int64_t b = i / s.H, h = i % s.H, shared = h / s.group();
        const auto queries = [&](auto* all) {
          return detail::rows_of(detail::head_of(all, s, s.H, b, h), block.query,
                                 block.query + n.T);
        };
        const auto keys = [&](auto* all) {
          return detail::rows_of(detail::head_of(all, s, s.Hkv, b, shared), block.key,
                                 block.key + n.T);
        };
        detail::blockwise_backward_head<Number, Real>(
            {queries(Q), keys(K), keys(V), queries(O), queries(dO), L + i * s.T + block.query,
             queries(dQ), keys(dK), keys(dV), scratch.data() + 2 * tile, block.ahead},
            scratch.data(), scratch.data() + tile);
      }
    });
  });
}

AttentionGradients attention_blockwise_backward(const Tensor& dout, const Tensor& q,
                                                const Tensor& k, const Tensor& v,
                                                const BlockwiseAttention& saved, Where where) {
  const AttentionSizes s = attention_sizes("attention_blockwise_backward", q, k, v, where);
  AttentionGradients d{zero_sums(q, where), zero_sums(k, where), zero_sums(v, where)};
  attention_block_backward(dout, q, k, v, saved, {.length = s.T}, d, where);
  return rounded(std::move(d), q.dtype());
}

#endif  // YOTTA_BODIES

}  // namespace yotta
