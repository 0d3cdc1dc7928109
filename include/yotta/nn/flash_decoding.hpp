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

namespace detail {

// o and L of one group of query heads over the keys [begin, end) of the head that they share.
template <class Number, class Real = Computed<Number>>
void decode_part(const Number* q, MatrixView<const Number> k, MatrixView<const Number> v,
                 int64_t group, int64_t begin, int64_t end, Real* o, Real* L) {
  const int64_t d = k.cols, n = end - begin;
  flash_forward(FlashHead<Number>{row_major(q, group, d), rows_of(k, begin, end),
                                  rows_of(v, begin, end), row_major(o, group, d), L},
                0, group, CausalMask{n, n}, SameScore{});  // all keys are before the query
}

}  // namespace detail

// o (B, H, d) of q (B, H, d) over the cache, in `parts` parts that threads compute side by side.
inline Tensor flash_decode(const Tensor& q, const KeyValueCache& cache, int64_t parts = 1,
                           Where where = Where::current()) {
  const Tensor &k = cache.k, &v = cache.v;
  expect_dims("flash_decode", "q", q, 3, "(B, H, d)", where);
  expect_dims("flash_decode", "k", k, 4, "(B, T, Hkv, d)", where);
  expect_same("flash_decode", "k", k, "v", v, where);
  const AttentionSizes s{q.dim(0), cache.length, q.dim(1), k.dim(2), q.dim(2)};
  if (k.dim(0) != s.B || k.dim(3) != s.d || s.Hkv <= 0 || s.H % s.Hkv != 0 || parts < 1 ||
      s.T < 0 || s.T > k.dim(1))
    fail(where,
         "flash_decode: q is {} and k is {}, {} tokens long, in {} parts; batch and d must agree, "
         "q's heads be a multiple of k's, and the length at most T",
         q.describe(), k.describe(), s.T, parts);
  charge(flash_decode_cost(q.dtype(), s, parts));
  Tensor o = empty_like(q, where);
  if (q.device() == Device::meta) return o;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const int64_t rows = s.B * s.H, row = k.dim(2) * s.d, group = s.group();
    std::vector<Real> part_o(static_cast<size_t>(parts * rows * s.d));
    std::vector<Real> part_L(static_cast<size_t>(parts * rows));
    const auto keys = [&](const Tensor& x, int64_t b, int64_t h) {
      return row_major(x.data<Number>(where) + b * x.dim(1) * row + h * s.d, s.T, s.d, row);
    };
    parallel_for(s.B * s.Hkv * parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t part = i % parts, b = i / parts / s.Hkv, h = i / parts % s.Hkv;
        const int64_t query = b * s.H + h * group, at = part * rows + query;
        detail::decode_part(q.data<Number>(where) + query * s.d, keys(k, b, h), keys(v, b, h),
                            group, chunk_begin(s.T, parts, part), chunk_begin(s.T, parts, part + 1),
                            part_o.data() + at * s.d, part_L.data() + at);
      }
    });
    const MergeRow<Real> sum{1, 1, s.d, part_o.data(), part_L.data(), nullptr, nullptr};
    for (int64_t part = 1; part < parts; ++part) {
      MergeRow<Real> merged = sum;
      merged.part_o = part_o.data() + part * rows * s.d;
      merged.part_L = part_L.data() + part * rows;
      for (int64_t i = 0; i < rows; ++i) merged(i, LaneTeam<Real>{});
    }
    for (int64_t i = 0; i < rows * s.d; ++i)
      o.data<Number>()[i] = static_cast<Number>(part_o[static_cast<size_t>(i)]);
  });
  return o;
}

}  // namespace yotta
