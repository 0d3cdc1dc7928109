// The bodies of nn/flash_attention.hpp.
#pragma once

#include "yotta/nn/flash_attention.hpp"

#include "yotta/nn/cuda/attention_tiles.hpp"

namespace yotta {

namespace detail {

// Queries of one head that a thread takes at once; for them it copies all keys of the head.
inline constexpr int64_t flash_part = 2048;

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
  expect_shape("flash_attention_backward", what, sums, x.shape(), where);
  expect_dtype("flash_attention_backward", what, sums, computed(x.dtype()), where);
}

// On Device::cuda: tiles; or one warp per query, and backward also one per key
// (attention_tiles.hpp). `s`: sizes of the whole.
inline AttentionRows rows_of_block(const AttentionSizes& s, const AttentionBlock& block) {
  return {s.T, block.length, s.H, s.Hkv, s.d, block.query, block.key, block.ahead};
}

// Do kernels round what they sum? If so, a whole o, dq, dk and dv need no sums in f32.
inline bool rounds_sums(const Tensor& q) {
  return q.device() == Device::cuda && has_attention_tiles(q.dtype(), q.dim(3));
}

// f(Type<Sum>) for what tiles store sums as.
template <class F>
void visit_sums(const Tensor& sums, F&& f) {
  return sums.dtype() == DType::bf16 ? f(Type<bfloat16>{}) : f(Type<float>{});
}

inline void blockwise_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionSizes& s, const AttentionBlock& block,
                              FlashAttention& out, Where where) {
  const AttentionRows at = rows_of_block(s, block);
  const int64_t queries = s.B * s.H * block.length;
  if (has_attention_tiles(q.dtype(), s.d))
    return visit_sums(out.o, [&]<class Sum>(Type<Sum>) {
      const auto of = [&](const Tensor& x) { return x.address<bfloat16>(Device::cuda, where); };
      const AttentionTiles<Sum> body{at,
                                     s.B,
                                     of(q),
                                     of(k),
                                     of(v),
                                     out.o.address<Sum>(Device::cuda),
                                     out.log_sum_exp.address<float>(Device::cuda)};
      run_kernel("flash_attention", body, queries, where);
    });
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const auto of = [&](const Tensor& x) { return x.address<Number>(Device::cuda, where); };
    const BlockwiseRow<Number> body{at,
                                    of(q),
                                    of(k),
                                    of(v),
                                    out.o.address<Real>(Device::cuda),
                                    out.log_sum_exp.address<Real>(Device::cuda)};
    run_kernel("flash_attention", body, queries, where);
  });
}

inline void blockwise_backward_on_cuda(const Tensor& dout, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const AttentionSizes& s,
                                       const FlashAttention& saved, const AttentionBlock& block,
                                       AttentionGradients& d, Where where) {
  const AttentionRows at = rows_of_block(s, block);
  const int64_t queries = s.B * s.H * block.length;
  if (has_attention_tiles(q.dtype(), s.d))
    return visit_sums(d.dq, [&]<class Sum>(Type<Sum>) {
      const auto of = [&](const Tensor& x) { return x.address<bfloat16>(Device::cuda, where); };
      const auto sums = [&](Tensor& x) { return x.address<Sum>(Device::cuda, where); };
      const AttentionTilesBackward<Sum> body{
          at,         s.B,         of(q),     of(k),
          of(v),      of(saved.o), of(dout),  saved.log_sum_exp.address<float>(Device::cuda, where),
          sums(d.dq), sums(d.dk),  sums(d.dv)};
      run_kernel("flash_attention_backward", body, queries, where);
    });
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const auto of = [&](const Tensor& x) { return x.address<Number>(Device::cuda, where); };
    const Real* L = saved.log_sum_exp.address<Real>(Device::cuda, where);
    const BlockwiseSaved<Number> all{at, of(q), of(k), of(v), of(saved.o), of(dout), L};
    Real *dQ = d.dq.address<Real>(Device::cuda, where),
         *dK = d.dk.address<Real>(Device::cuda, where);
    Real* dV = d.dv.address<Real>(Device::cuda, where);
    run_kernel("flash_attention_backward", BlockwiseQueryGradient<Number>{all, dQ}, queries, where);
    run_kernel("flash_attention_backward", BlockwiseKeyGradient<Number>{all, dK, dV},
               s.B * s.Hkv * block.length, where);
  });
}

// o in type `o_type`: that of sums, or q's if kernels round them.
inline FlashAttention forward_block(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionBlock& block, DType o_type, Where where) {
  const char* operation = "flash_attention";
  const AttentionSizes s = attention_sizes(operation, q, k, v, where);
  const AttentionSizes n = block_sizes(operation, s, block, where);
  charge(attention_block_cost(q.dtype(), n, twice_seen(block)));
  FlashAttention out{empty_beside(q, {n.B, n.T, n.H, n.d}, o_type, where),
                     empty_beside(q, {n.B, n.H, n.T}, computed(q.dtype()), where)};
  if (q.device() == Device::meta) return out;
  if (q.device() == Device::cuda) {
    blockwise_on_cuda(q, k, v, s, block, out, where);
    return out;
  }
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const Number *Q = q.data<Number>(where), *K = k.data<Number>(where), *V = v.data<Number>(where);
    Real *O = out.o.data<Real>(), *L = out.log_sum_exp.data<Real>();
    const int64_t parts = ceil_div(n.T, flash_part);
    parallel_for(s.B * s.H * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t head = i / parts, b = head / s.H, h = head % s.H, shared = h / s.group();
        const auto keys = [&](const Number* all) {
          return rows_of(head_of(all, s, s.Hkv, b, shared), block.key, block.key + n.T);
        };
        const int64_t first = i % parts * flash_part;
        flash_forward(
            FlashHead<Number>{rows_of(head_of(Q, s, s.H, b, h), block.query, block.query + n.T),
                              keys(K), keys(V), head_of(O, n, s.H, b, h), L + head * n.T},
            first, std::min(first + flash_part, n.T), CausalMask{n.T, block.ahead}, SameScore{});
      }
    });
  });
  return out;
}

}  // namespace detail

YOTTA_INLINE FlashAttention attention_block(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionBlock& block, Where where) {
  return detail::forward_block(q, k, v, block, computed(q.dtype()), where);
}

YOTTA_INLINE FlashAttention flash_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                            Where where) {
  const AttentionSizes s = attention_sizes("flash_attention", q, k, v, where);
  const DType o_type = detail::rounds_sums(q) ? q.dtype() : computed(q.dtype());
  const FlashAttention out = detail::forward_block(q, k, v, {.length = s.T}, o_type, where);
  return {as_type(out.o, q.dtype()), out.log_sum_exp};
}

YOTTA_INLINE Tensor zero_sums(const Tensor& x, Where where) {
  Tensor made = empty_sums(x, where);
  made.zero();
  return made;
}

namespace detail {

// d: sums to which a block's part is added, or, if kernels round them, what the whole overwrites.
inline void backward_block(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                           const FlashAttention& saved, const AttentionBlock& block,
                           AttentionGradients& d, Where where) {
  const char* operation = "flash_attention_backward";
  const AttentionSizes s = attention_sizes(operation, q, k, v, where);
  const AttentionSizes n = block_sizes(operation, s, block, where);
  expect_same(operation, "dout", dout, "q", q, where);
  expect_same(operation, "o", saved.o, "q", q, where);
  expect_shape(operation, "log_sum_exp", saved.log_sum_exp, {s.B, s.H, s.T}, where);
  charge(attention_block_backward_cost(q.dtype(), n, twice_seen(block)));
  if (q.device() == Device::meta) return;
  if (q.device() == Device::cuda)
    return blockwise_backward_on_cuda(dout, q, k, v, s, saved, block, d, where);
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const Number *Q = q.data<Number>(where), *K = k.data<Number>(where), *V = v.data<Number>(where);
    const Number *O = saved.o.data<Number>(where), *dO = dout.data<Number>(where);
    const Real* L = saved.log_sum_exp.data<Real>(where);
    Real *dQ = d.dq.data<Real>(where), *dK = d.dk.data<Real>(where), *dV = d.dv.data<Real>(where);
    parallel_for(s.B * s.Hkv, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * s.group(); i < end * s.group(); ++i) {
        const int64_t b = i / s.H, h = i % s.H, shared = h / s.group();
        const auto queries = [&](auto* all) {
          return rows_of(head_of(all, s, s.H, b, h), block.query, block.query + n.T);
        };
        const auto keys = [&](auto* all) {
          return rows_of(head_of(all, s, s.Hkv, b, shared), block.key, block.key + n.T);
        };
        flash_backward(
            FlashBackwardHead<Number>{queries(Q), keys(K), keys(V), queries(O), queries(dO),
                                      L + i * s.T + block.query, queries(dQ), keys(dK), keys(dV)},
            CausalMask{n.T, block.ahead}, SameScore{});
      }
    });
  });
}

}  // namespace detail

YOTTA_INLINE void attention_block_backward(const Tensor& dout, const Tensor& q, const Tensor& k,
                                           const Tensor& v, const FlashAttention& saved,
                                           const AttentionBlock& block, AttentionGradients& d,
                                           Where where) {
  detail::expect_sums("dq", d.dq, q, where);
  detail::expect_sums("dk", d.dk, k, where);
  detail::expect_sums("dv", d.dv, v, where);
  detail::backward_block(dout, q, k, v, saved, block, d, where);
}

YOTTA_INLINE AttentionGradients flash_attention_backward(const Tensor& dout, const Tensor& q,
                                                         const Tensor& k, const Tensor& v,
                                                         const FlashAttention& saved, Where where) {
  const AttentionSizes s = attention_sizes("flash_attention_backward", q, k, v, where);
  const auto made = [&](const Tensor& x) {
    return detail::rounds_sums(q) ? empty_like(x, where) : zero_sums(x, where);
  };
  AttentionGradients d{made(q), made(k), made(v)};
  detail::backward_block(dout, q, k, v, saved, {.length = s.T}, d, where);
  return rounded(std::move(d), q.dtype());
}

YOTTA_INLINE void merge(FlashAttention& sum, const FlashAttention& part, Where where) {
  if (!sum.o.defined()) return void(sum = part);
  expect_same("merge", "o", sum.o, "the part's o", part.o, where);
  const int64_t n = sum.o.dim(1), H = sum.o.dim(2), d = sum.o.dim(3),
                rows = part.log_sum_exp.numel();
  charge(attention_merge_cost(sum.o.dtype(), rows, d));
  const Device device = sum.o.device();
  if (device == Device::meta) return;
  visit_real(sum.o.dtype(), where, [&]<class Real>(Type<Real>) {
    const auto at = [&](auto& x) { return x.template address<Real>(device, where); };
    const MergeRow<Real> body{
        n, H, d, at(sum.o), at(sum.log_sum_exp), at(part.o), at(part.log_sum_exp)};
    run_rows<Real>("attention_merge", device, rows, d, body, where);
  });
}

}  // namespace yotta
