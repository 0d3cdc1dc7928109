// Causal attention as the formula has it: every token looks at all tokens before it, and at itself.
//
//     S = Q K' / sqrt(d)      (T, T)     scores            keys ->
//     P = softmax(S), causal  (T, T)     probabilities   q [ x . . . ]   row t sees keys 0 to t;
//     O = P V                 (T, d)                     | [ x x . . ]   what is above the diagonal
//                                                        v [ x x x . ]   is computed here and
//     for each head of each sequence                       [ x x x x ]   thrown away
//
// This `plain` form keeps P of every head for the backward pass: B H T^2 numbers, at T = 8192 and
// 32 heads 8 GiB per sequence and layer. flash_attention.hpp computes the same without it.
// Plain is the reference, and the one with dropout on P. With bf16 inputs S and softmax are f32, P
// is kept in bf16, and o, dq, dk and dv are summed in f32 and rounded once.
//
// Backward: dV = P' dO and dP = dO V', as for any product; dS = P (dP - row sums of dP P), as for
// softmax; S = Q K' / sqrt(d) gives dQ = dS K / sqrt(d) and dK = dS' Q / sqrt(d).
//
// Grouped queries: H query heads share Hkv heads of keys and values; query head h uses head
// h / (H / Hkv) of them, and dK and dV are sums over the group.
// Cost: forward 2 matmuls = 4 T^2 d FLOPs per head, backward 4 = 8 T^2 d.
// Letters: B batch, T sequence, H query heads, Hkv key and value heads, d numbers per head.
// References: Vaswani et al. (2017), section 3.2; Ainslie et al. (2023), GQA.
#pragma once

#include "yotta/core/random.hpp"
#include "yotta/nn/op.hpp"

namespace yotta {

// The ways to compute attention. Causal, they give the same numbers.
//     plain       this file: keeps the T x T probabilities of every head for the backward pass
//     blockwise   flash_attention.hpp: computes them again, tile by tile, for a few more FLOPs
//     flex        flex_core.hpp: blockwise, under any mask
enum class AttentionKind : uint8_t { plain, blockwise, flex };
constexpr const char* name(AttentionKind kind) {
  return kind == AttentionKind::plain  ? "plain"
         : kind == AttentionKind::flex ? "flex"
                                       : "blockwise";
}

struct AttentionSizes {
  int64_t B, T, H, Hkv, d;
  int64_t group() const { return H / Hkv; }
};

struct AttentionGradients {
  Tensor dq;      // (B, T, H, d)
  Tensor dk, dv;  // (B, T, Hkv, d)
};

// Dropout on probabilities. Head h of sequence b of this rank is head first_head + h of `heads` in
// sequence first_sequence + b of the whole run; heads 0 means that all are here.
struct AttentionDropout {
  double p = 0;
  Random random{0, "attention"};
  int64_t first_sequence = 0, first_head = 0, heads = 0;
};

struct PlainAttention {
  Tensor o;              // (B, T, H, d)
  Tensor probabilities;  // (B, H, T, T), before dropout
  Tensor mask;           // (B, H, T, T) u8; undefined without dropout
};

// FLOPs of the matmuls: T^2 d for each head, times `per_score`.
constexpr int64_t attention_flops(const AttentionSizes& s, int per_score) {
  return per_score * s.B * s.H * s.T * s.T * s.d;
}

// Numbers in q (and o), in k (and v), and in all heads' scores.
constexpr int64_t query_numbers(const AttentionSizes& s) { return s.B * s.T * s.H * s.d; }
constexpr int64_t key_numbers(const AttentionSizes& s) { return s.B * s.T * s.Hkv * s.d; }
constexpr int64_t score_numbers(const AttentionSizes& s) { return s.B * s.H * s.T * s.T; }
// Dropout reads and writes all probabilities once more, and a byte of mask for each.
constexpr OpCost with_dropout(OpCost cost, const AttentionSizes& s, bool drops, bool is_backward) {
  if (!drops) return cost;
  const auto scores = static_cast<double>(score_numbers(s));
  const double numbers = scores * static_cast<double>(bytes_of(cost.dtype));
  cost.bytes_read += numbers + (is_backward ? 2 * scores : 0);  // for dV, and for dP
  cost.bytes_written += numbers + (is_backward ? 0 : scores);
  return cost;
}
constexpr OpCost attention_plain_cost(DType dtype, const AttentionSizes& s, bool drops = false) {
  const OpCost cost = op_cost("attention_plain", dtype, attention_flops(s, 4),
                              query_numbers(s) + 2 * key_numbers(s) + 2 * score_numbers(s),
                              query_numbers(s) + 2 * score_numbers(s));
  return with_dropout(cost, s, drops, false);
}
constexpr OpCost attention_plain_backward_cost(DType dtype, const AttentionSizes& s,
                                               bool drops = false) {
  const OpCost cost = op_cost("attention_plain_backward", dtype, attention_flops(s, 8),
                              2 * query_numbers(s) + 2 * key_numbers(s) + 4 * score_numbers(s),
                              query_numbers(s) + 2 * key_numbers(s) + 2 * score_numbers(s));
  return with_dropout(cost, s, drops, true);
}

// Sums of x's shape in the type in which they are taken, f32 for bf16; results are rounded later.
Tensor empty_sums(const Tensor& x, Where where);
AttentionGradients rounded(AttentionGradients sums, DType dtype);

// The sizes behind q (B, T, H, d), k and v (B, T, Hkv, d), or an error.
AttentionSizes attention_sizes(const char* operation, const Tensor& q, const Tensor& k,
                               const Tensor& v, Where where);

// o (B, T, H, d) of q (B, T, H, d), k and v (B, T, Hkv, d).
PlainAttention attention_plain(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionDropout& dropout = {},
                               Where where = Where::current());

// dq, dk, dv from dout (B, T, H, d) and what the forward pass kept; p as in its dropout.
AttentionGradients attention_plain_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const PlainAttention& saved,
                                            double p = 0, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/attention.ipp"
#endif
