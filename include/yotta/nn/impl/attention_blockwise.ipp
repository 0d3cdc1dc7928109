// The bodies of nn/attention_blockwise.hpp.
#pragma once

#include "yotta/nn/attention_blockwise.hpp"

#include "yotta/nn/cpu/attention_tiles.hpp"

namespace yotta {

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

YOTTA_INLINE BlockwiseAttention attention_block(const Tensor& q, const Tensor& k, const Tensor& v,
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

YOTTA_INLINE BlockwiseAttention attention_blockwise(const Tensor& q, const Tensor& k,
                                                    const Tensor& v, Where where) {
  const AttentionSizes s = attention_sizes("attention_blockwise", q, k, v, where);
  const BlockwiseAttention sums = attention_block(q, k, v, {.length = s.T}, where);
  return {as_type(sums.o, q.dtype()), sums.log_sum_exp};
}

YOTTA_INLINE Tensor zero_sums(const Tensor& x, Where where) {
  Tensor made = empty_sums(x, where);
  made.zero();
  return made;
}

YOTTA_INLINE void attention_block_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                           const Tensor& v, const BlockwiseAttention& saved,
                                           const AttentionBlock& block, AttentionGradients& d,
                                           Where where) {
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

YOTTA_INLINE AttentionGradients attention_blockwise_backward(const Tensor& dout, const Tensor& q,
                                                             const Tensor& k, const Tensor& v,
                                                             const BlockwiseAttention& saved,
                                                             Where where) {
  const AttentionSizes s = attention_sizes("attention_blockwise_backward", q, k, v, where);
  AttentionGradients d{zero_sums(q, where), zero_sums(k, where), zero_sums(v, where)};
  attention_block_backward(dout, q, k, v, saved, {.length = s.T}, d, where);
  return rounded(std::move(d), q.dtype());
}

}  // namespace yotta
