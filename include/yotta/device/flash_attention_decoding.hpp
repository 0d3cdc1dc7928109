// Flash decoding: attention of one new token. Each head has one query and a long cache of keys and
// values, so the time is the cache's bytes over the bandwidth, if enough blocks ask for them.
//
//     a prompt     T queries, T keys    a block for each tile of queries of each head
//     a token      1 query, T keys      a block for each head: 8 of them for 132 SMs
//
//     keys         |---- split 0 ----|---- split 1 ----|---- split 2 ----|     3 times the blocks
//     each gives       o_0, L_0          o_1, L_1          o_2, L_2
//     the merge    L = log(e^L_0 + e^L_1 + e^L_2)      o = sum of e^(L_i - L) o_i
//
// Ring attention merges in the same way: there the splits are on other ranks.
//
// Heads that share keys share a tile as well: the queries of a group are rows of one tile
// (pack_heads), so the cache is read once for a group. This is what grouped-query and multi-query
// attention are for: the cache has Hkv heads instead of H, and decoding reads so many fewer bytes.
//
//     H = 32, d = 128           Hkv = 32, multi-head   8, grouped-query   1, multi-query
//     bytes a token and layer   16,384                 4,096              512
//
// Cost: decoding_reads(), merge_bytes().
// Contract: that of flash_attention_mma.hpp, whose kernel this is; grid (tiles of Tq group() rows,
// B Hkv, splits). The splits' o (splits, B, Tq, H, d) and L (splits, B, H, Tq) are f32.
// References: Dao, Haziza, Massa, Sizov (2023), "Flash-Decoding for long-context inference";
// Shazeer (2019), multi-query attention; Ainslie et al. (2023), GQA.
#pragma once

#include "yotta/device/flash_attention_mma.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

__device__ inline void store_one(float* to, float x) { *to = x; }
__device__ inline void store_one(bfloat16* to, float x) {
  to->bits = static_cast<uint16_t>(rounded_pair(x, 0));
}

// o and L of all keys from those of the splits. A warp for each row; block `warps` warps.
template <class Out, int warps>
__global__ void merge_splits(const float* partial_o, const float* partial_L, int splits, Out* o,
                             float* L, AttentionShape shape) {
  const int64_t row = int64_t{blockIdx.x} * warps + threadIdx.x / 32, rows = shape.query_rows();
  if (row >= rows) return;
  const int lane = threadIdx.x % 32, t = static_cast<int>(row % shape.Tq);
  const int h = static_cast<int>(row / shape.Tq % shape.H);
  const int64_t at = shape.query_at(static_cast<int>(row / shape.Tq / shape.H), t, h);
  float m = -INFINITY, l = 0;
  for (int i = 0; i < splits; ++i) m = fmaxf(m, partial_L[i * rows + row]);
  for (int i = 0; i < splits; ++i) l += exp_below(partial_L[i * rows + row], m);
  for (int x = lane; x < shape.d; x += 32) {
    float sum = 0;
    for (int i = 0; i < splits; ++i)
      sum += exp_below(partial_L[i * rows + row], m) * partial_o[i * rows * shape.d + at + x];
    store_one(o + at + x, l == 0 ? 0 : sum / l);  // a NaN stays one
  }
  if (lane == 0) L[row] = m + logf(l);
}

// So many splits that each of `processors` has a block, and each split a tile of keys.
constexpr int splits_for(const AttentionShape& s, int64_t processors, int64_t BK) {
  const int64_t wanted = tiles_along(processors, int64_t{s.B} * s.Hkv),
                most = tiles_along(s.Tk, BK);
  return static_cast<int>(wanted < most ? wanted : most);
}

// The keys and values of one layer, in bf16.
constexpr int64_t cache_bytes(const AttentionShape& s) { return 2 * 2 * s.key_numbers(); }

// What the splits read of q, k and v: the cache once, if a group's queries fit into one tile.
template <class T>
constexpr int64_t decoding_reads(const AttentionShape& s, int splits) {
  const int64_t tiles = tiles_along(int64_t{s.Tq} * s.group(), T::BQ);
  return 2 * splits * s.query_numbers() + tiles * cache_bytes(s);
}

// What they write, and the merge reads: o and L of each.
constexpr int64_t merge_bytes(const AttentionShape& s, int splits) {
  return 4 * splits * (s.query_numbers() + s.query_rows());
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
