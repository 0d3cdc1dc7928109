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
BlockwiseAttention attention_block(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionBlock& block, Where where = Where::current());

// o (B, T, H, d) of q (B, T, H, d), k and v (B, T, Hkv, d): the block that is the whole.
BlockwiseAttention attention_blockwise(const Tensor& q, const Tensor& k, const Tensor& v,
                                       Where where = Where::current());

// Adds a block's part of dq, dk and dv to `d`, in the block's columns; dout (B, T, H, d). `saved`
// is what all blocks of these queries gave together: o (B, T, H, d), L (B, H, T). `d` is f32 for
// bf16: zero_sums() makes it.
void attention_block_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                              const BlockwiseAttention& saved, const AttentionBlock& block,
                              AttentionGradients& d, Where where = Where::current());

// Zeros to which blocks add: of x's shape, f32 for bf16.
Tensor zero_sums(const Tensor& x, Where where = Where::current());

// dq, dk, dv from dout (B, T, H, d) and what the forward pass kept.
AttentionGradients attention_blockwise_backward(const Tensor& dout, const Tensor& q,
                                                const Tensor& k, const Tensor& v,
                                                const BlockwiseAttention& saved,
                                                Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/attention_blockwise.ipp"
#endif
