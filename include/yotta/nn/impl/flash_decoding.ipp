// The bodies of nn/flash_decoding.hpp.
#pragma once

#include "yotta/nn/flash_decoding.hpp"

#include "yotta/core/cpu/convert.hpp"

namespace yotta {

namespace detail {

// The sizes behind q and a cache, or an error; T is the length.
inline AttentionSizes decode_sizes(const Tensor& q, const KeyValueCache& cache, int64_t parts,
                                   Where where) {
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
  return s;
}

}  // namespace detail

YOTTA_INLINE Tensor flash_decode(const Tensor& q, const KeyValueCache& cache, int64_t parts,
                                 Where where) {
  const AttentionSizes s = detail::decode_sizes(q, cache, parts, where);
  charge(flash_decode_cost(q.dtype(), s, parts));
  Tensor o = empty_like(q, where);
  if (q.device() == Device::meta) return o;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const int64_t rows = s.B * s.H, token = s.Hkv * s.d, room = cache.k.dim(1) * token;
    const PackBuffer<Real> part_o(parts * rows * s.d), part_L(parts * rows);
    const auto keys = [&](const Tensor& x, int64_t b, int64_t h) {
      return row_major(x.data<Number>(where) + b * room + h * s.d, s.T, s.d, token);
    };
    parallel_for(s.B * s.Hkv * parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t part = i % parts, b = i / parts / s.Hkv, h = i / parts % s.Hkv;
        const int64_t query = b * s.H + h * s.group(), at = part * rows + query;
        decode_part(row_major(q.data<Number>(where) + query * s.d, s.group(), s.d),
                    keys(cache.k, b, h), keys(cache.v, b, h), chunk_begin(s.T, parts, part),
                    chunk_begin(s.T, parts, part + 1),
                    row_major(part_o.data() + at * s.d, s.group(), s.d), part_L.data() + at);
      }
    });
    merge_parts(part_o.data(), part_L.data(), parts, rows, s.d);
    copy_numbers(o.data<Number>(), part_o.data(), rows * s.d);
  });
  return o;
}

}  // namespace yotta
