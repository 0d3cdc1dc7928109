// Decoding: one new query of each head against all keys so far, which lie in a cache. There is no
// tile of queries to share out any more, only B Hkv heads of keys; so the keys of a head are split,
// and the parts merged.
//
//     keys of one head, parts = 3          each part: o and L of its own keys (flash_attention.hpp)
//     q  [ x x x x | x x x x | x x x ]     merged: o = sum of e^(L_part - L) o_part
//          part 0    part 1    part 2
//
// Each step reads the whole cache for 4 FLOPs a number of k and v: it waits for memory. So the
// cache is what one makes smaller. Grouped queries: H query heads share Hkv heads of keys, which
// are read once for the group, as the rows of one tile. Multi-query: Hkv = 1.
//
//                      Hkv     bytes a token and layer (bf16)     FLOPs a byte
//     multi-head        H              4 H d                           1
//     grouped           H/8            4 H d / 8                       8
//     multi-query       1              4 d                             H
//
// Cost: 4 B H T d FLOPs, 2 B T Hkv d numbers read; parts add parts B H (d + 1) written and read.
// Contract: q (B, H, d); the first `length` of the cache's T tokens are there; CPU or meta.
// Letters: as flash_attention.hpp; T tokens that the cache has room for.
// References: Shazeer (2019), multi-query; Ainslie et al. (2023), GQA; Dao et al. (2023),
// Flash-Decoding.
#pragma once

#include "yotta/nn/flash_attention.hpp"

namespace yotta {

// A cache of one layer, and how many of its tokens are there.
struct KeyValueCache {
  Tensor k, v;     // (B, T, Hkv, d)
  int64_t length;  // 0 to T
};

// Bytes that the cache of a layer takes for `tokens` tokens of a sequence, and that a step reads.
constexpr int64_t cache_bytes(DType dtype, int64_t tokens, int64_t Hkv, int64_t d) {
  return 2 * tokens * Hkv * d * bytes_of(dtype);
}

// `s`: its T is the length.
constexpr OpCost flash_decode_cost(DType dtype, const AttentionSizes& s, int64_t parts) {
  const int64_t q = s.B * s.H * s.d, partial = parts > 1 ? parts * s.B * s.H * (s.d + 1) : 0;
  return op_cost("flash_decode", dtype, 4 * s.B * s.H * s.T * s.d,
                 q + 2 * s.B * s.T * s.Hkv * s.d + partial, q + partial);
}

// ---- the parts of one sequence's head of keys, and their merge ----------------------------------

// o and L of a group's query heads q (group, d) over the keys [begin, end) of the head that they
// share: the tile loop of flash attention, whose rows are heads here.
template <class Number, class Real = Computed<Number>>
void decode_part(MatrixView<const Number> q, MatrixView<const Number> k, MatrixView<const Number> v,
                 int64_t begin, int64_t end, MatrixView<Real> o, Real* L) {
  const int64_t n = end - begin;
  const FlashHead<Number> head{q, detail::rows_of(k, begin, end), detail::rows_of(v, begin, end), o,
                               L};
  flash_forward(head, 0, q.rows, CausalMask{n, n}, SameScore{});  // all keys are before the query
}

// Merges part after part into part 0: o (parts, rows, d), L (parts, rows).
template <class Real>
void merge_parts(Real* o, Real* L, int64_t parts, int64_t rows, int64_t d) {
  for (int64_t part = 1; part < parts; ++part) {
    const MergeRow<Real> merge{1, 1, d, o, L, o + part * rows * d, L + part * rows};
    for (int64_t row = 0; row < rows; ++row) merge(row, LaneTeam<Real>{});
  }
}

// ---- the op ------------------------------------------------------------------------------------

// o (B, H, d) of q (B, H, d) over the cache, in `parts` parts that threads compute side by side.
Tensor flash_decode(const Tensor& q, const KeyValueCache& cache, int64_t parts = 1,
                    Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/flash_decoding.ipp"
#endif
