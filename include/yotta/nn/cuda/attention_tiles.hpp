// Blockwise attention of Device::cuda on tensor cores: what lesson 07's kernels are told.
//
//     flash_attention.hpp ── bf16 and d 32, 64 or 128 ──► these: tiles in shared memory
//     (attention_block)   ├─ f32 and these d ───────────► attention_f32.hpp: the same without
//                         │                               tensor cores
//                         └─ f64, any other d ──────────► nn/cpu/attention_rows.hpp: one row at a
//                                                         time
//
// The type and d alone decide, so a model computes in one way from its first step to its last.
// Gradients are summed in a fixed order: two runs agree to the bit. P and dS are rounded to bf16
// before they are multiplied.
//
// A block of a sequence lies in the tensors of the whole: its rows are not one after the other from
// sequence to sequence. So a block is launched for each sequence, and L of its queries is copied
// together first. The whole is one launch, or a few where it has more heads than a grid has rows of
// blocks. It is rounded by the kernels that sum it; a block's results are f32, since others add to
// them.
//
// Cost: FLOPs as in flash_attention.hpp, backward 7 products of tiles instead of 5; each key and
// value is read once for each tile of queries. Extra memory in backward: D, and L of a block's
// queries, B H n numbers each.
// Letters: as attention_rows.hpp; D = rowsum(dO o O).
#pragma once

#include "yotta/core/dtype.hpp"
#include "yotta/nn/cpu/attention_rows.hpp"

namespace yotta::detail {

constexpr bool has_attention_tiles(DType dtype, int64_t d) {
  return dtype == DType::bf16 && (d == 32 || d == 64 || d == 128);
}

// How many of B sequences one launch computes: a row of blocks for each head.
constexpr int64_t sequences_together(const AttentionRows& at, int64_t B) {
  const int64_t most = 65535 / at.H;
  return at.n < at.T || most < 1 ? 1 : B < most ? B : most;
}

// o (B, n, H, d) and L (B, H, n) of a block. Sum: f32, for what is a part of a sum; or bf16, to
// which the whole is rounded as it is stored.
template <class Sum>
struct AttentionTiles {
  AttentionRows at;
  int64_t B;
  const bfloat16 *q, *k, *v;  // (B, T, ., d)
  Sum* o;
  float* L;
};

// dq, dk and dv (B, T, ., d): parts in f32 are added to what is there, the whole in bf16 overwrites
// it; L (B, H, T).
template <class Sum>
struct AttentionTilesBackward {
  AttentionRows at;
  int64_t B;
  const bfloat16 *q, *k, *v, *o, *dout;
  const float* L;
  Sum *dq, *dk, *dv;
};

}  // namespace yotta::detail
