// The bodies of nn/attention.hpp.
#pragma once

#include "yotta/nn/attention.hpp"

#include <cmath>

#include "yotta/core/cpu/convert.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/nn/cpu/attention_rows.hpp"
#include "yotta/nn/dropout.hpp"
#include "yotta/nn/softmax.hpp"

namespace yotta {

YOTTA_INLINE AttentionSizes attention_sizes(const char* operation, const Tensor& q, const Tensor& k,
                                            const Tensor& v, Where where) {
  expect_dims(operation, "q", q, 4, "(B, T, H, d)", where);
  expect_dims(operation, "k", k, 4, "(B, T, Hkv, d)", where);
  expect_same(operation, "k", k, "v", v, where);
  const AttentionSizes sizes{q.dim(0), q.dim(1), q.dim(2), k.dim(2), q.dim(3)};
  if (sizes.Hkv <= 0 || sizes.H % sizes.Hkv != 0 || sizes.d <= 0 ||
      k.shape() != Shape{sizes.B, sizes.T, sizes.Hkv, sizes.d})
    fail(where,
         "{}: q is {} and k is {}; batch, sequence and d must agree, and q's heads be a "
         "multiple of k's",
         operation, q.describe(), k.describe());
  return sizes;
}

YOTTA_INLINE Tensor empty_sums(const Tensor& x, Where where) {
  return empty_beside(x, x.shape(), computed(x.dtype()), where);
}
YOTTA_INLINE AttentionGradients rounded(AttentionGradients sums, DType dtype) {
  for (Tensor* each : {&sums.dq, &sums.dk, &sums.dv}) *each = as_type(*each, dtype);
  return sums;
}

namespace detail {

inline PlainAttention rounded(const PlainAttention& out, DType dtype) {
  return {as_type(out.o, dtype), out.probabilities, out.mask};
}

// Head h of sequence b in x (B, T, heads, d): a (T, d) matrix whose rows are heads * d apart.
template <class T>
MatrixView<T> head_of(T* x, const AttentionSizes& s, int64_t heads, int64_t b, int64_t h) {
  return row_major(x + (b * s.T * heads + h) * s.d, s.T, s.d, heads * s.d);
}

// x *= mask / (1 - p).
template <class Real>
void drop(Real* x, const uint8_t* mask, int64_t n, double p) {
  const Real grow = static_cast<Real>(1 / (1 - p));
  for (int64_t i = 0; i < n; ++i) x[i] = mask[i] != 0 ? x[i] * grow : Real{0};
}

// `scratch`: (T, T).
template <class Number, class Real>
void plain_head(MatrixView<const Number> q, MatrixView<const Number> k, MatrixView<const Number> v,
                const uint8_t* mask, double p, Real* scratch, Number* P, MatrixView<Real> o) {
  const int64_t T = q.rows;
  const Real factor = Real{1} / std::sqrt(static_cast<Real>(q.cols));
  Real* S = scratch;
  if constexpr (std::is_same_v<Number, Real>) S = P;
  matmul(q, transposed(k), row_major(S, T, T), Into::overwrite);
  for (int64_t t = 0; t < T; ++t) {
    softmax_row(S + t * T, t + 1, factor, S + t * T);
    std::fill(S + t * T + t + 1, S + (t + 1) * T, Real{0});
  }
  copy_numbers(P, S, T * T);
  if (mask == nullptr) return matmul(row_major<const Number>(P, T, T), v, o, Into::overwrite);
  copy_numbers(scratch, P, T * T);
  drop(scratch, mask, T * T, p);
  matmul(row_major<const Real>(scratch, T, T), v, o, Into::overwrite);
}

// One query head: dq is overwritten, dk and dv are overwritten or added to.
template <class Number, class Real>
void plain_head_backward(MatrixView<const Number> dout, MatrixView<const Number> q,
                         MatrixView<const Number> k, MatrixView<const Number> v, const Number* P,
                         const uint8_t* mask, double p, Into into, MatrixView<Real> dq,
                         MatrixView<Real> dk, MatrixView<Real> dv) {
  const int64_t T = q.rows;
  const Real factor = Real{1} / std::sqrt(static_cast<Real>(q.cols));
  const PackBuffer<Real> scratch(T * T);
  Real* S = scratch.data();  // P with dropout, then dP, then dS
  const MatrixView<const Real> s = row_major<const Real>(S, T, T);
  copy_numbers(S, P, T * T);
  if (mask != nullptr) drop(S, mask, T * T, p);
  matmul(transposed(s), dout, dv, into);
  matmul(dout, transposed(v), row_major(S, T, T), Into::overwrite);
  if (mask != nullptr) drop(S, mask, T * T, p);
  for (int64_t t = 0; t < T; ++t) softmax_backward_row(S + t * T, P + t * T, T, factor, S + t * T);
  matmul(s, k, dq, Into::overwrite);
  matmul(transposed(s), q, dk, into);
}

// On Device::cuda: all rows of P, then all of o; and backward.
inline AttentionRows rows_of_sizes(const AttentionSizes& s) {
  return {s.T, s.T, s.H, s.Hkv, s.d, 0, 0, 0};
}

}  // namespace detail

YOTTA_INLINE PlainAttention attention_plain(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionDropout& dropout, Where where) {
  const AttentionSizes s = attention_sizes("attention_plain", q, k, v, where);
  expect_probability("attention_plain", dropout.p, where);
  charge(attention_plain_cost(q.dtype(), s, dropout.p > 0));
  const Shape scores{s.B, s.H, s.T, s.T};
  PlainAttention out{empty_sums(q, where), empty_beside(q, scores, q.dtype(), where), {}};
  if (dropout.p > 0) out.mask = empty_beside(q, scores, DType::u8, where);
  const int64_t heads = dropout.heads > 0 ? dropout.heads : s.H, square = s.T * s.T;
  const auto first_of_head = [&](int64_t i) {  // of its scores, in the whole run's
    const int64_t b = i / s.H, h = i % s.H;
    return ((dropout.first_sequence + b) * heads + dropout.first_head + h) * square;
  };
  if (q.device() == Device::cuda) {
    if (dropout.p > 0)
      detail::draw_masks("attention_plain", dropout.random, dropout.p, square, first_of_head,
                         out.mask, where);
    detail::plain_rows(q, k, v, detail::rows_of_sizes(s), dropout.p, out.probabilities, out.mask,
                       out.o, where);
  }
  if (q.device() != Device::cpu) return detail::rounded(out, q.dtype());
  uint8_t* masks = dropout.p > 0 ? out.mask.data<uint8_t>() : nullptr;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const Number *Q = q.data<Number>(where), *K = k.data<Number>(where), *V = v.data<Number>(where);
    Number* P = out.probabilities.data<Number>();
    Real* O = out.o.data<Real>();
    parallel_for(s.B * s.H, 1, [&](int64_t begin, int64_t end) {
      const bool needed = masks != nullptr || dtype_of<Number> != dtype_of<Real>;
      const PackBuffer<Real> scratch(needed ? square : 0);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / s.H, h = i % s.H, shared = h / s.group();
        uint8_t* mask = masks == nullptr ? nullptr : masks + i * square;
        if (mask != nullptr) draw_mask(dropout.random, dropout.p, first_of_head(i), square, mask);
        detail::plain_head(detail::head_of(Q, s, s.H, b, h),
                           detail::head_of(K, s, s.Hkv, b, shared),
                           detail::head_of(V, s, s.Hkv, b, shared), mask, dropout.p, scratch.data(),
                           P + i * square, detail::head_of(O, s, s.H, b, h));
      }
    });
  });
  return detail::rounded(out, q.dtype());
}

YOTTA_INLINE AttentionGradients attention_plain_backward(const Tensor& dout, const Tensor& q,
                                                         const Tensor& k, const Tensor& v,
                                                         const PlainAttention& saved, double p,
                                                         Where where) {
  const char* operation = "attention_plain_backward";
  const AttentionSizes s = attention_sizes(operation, q, k, v, where);
  expect_same(operation, "dout", dout, "q", q, where);
  expect_shape(operation, "probabilities", saved.probabilities, {s.B, s.H, s.T, s.T}, where);
  if ((p > 0) != saved.mask.defined())
    fail(where, "{}: p is {} and the forward pass {}", operation, p,
         saved.mask.defined() ? "drew a mask" : "drew no mask");
  charge(attention_plain_backward_cost(q.dtype(), s, p > 0));
  AttentionGradients d{empty_sums(q, where), empty_sums(k, where), empty_sums(v, where)};
  if (q.device() == Device::cuda)
    detail::plain_rows_backward(dout, q, k, v, detail::rows_of_sizes(s), p, saved.probabilities,
                                saved.mask, d.dq, d.dk, d.dv, where);
  if (q.device() != Device::cpu) return rounded(std::move(d), q.dtype());
  const uint8_t* masks = p > 0 ? saved.mask.data<uint8_t>(where) : nullptr;
  visit_activation(q.dtype(), where, [&]<class Number>(Type<Number>) {
    using Real = Computed<Number>;
    const Number *dO = dout.data<Number>(where), *P = saved.probabilities.data<Number>(where);
    const Number *Q = q.data<Number>(where), *K = k.data<Number>(where), *V = v.data<Number>(where);
    Real *dQ = d.dq.data<Real>(), *dK = d.dk.data<Real>(), *dV = d.dv.data<Real>();
    parallel_for(s.B * s.Hkv, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * s.group(); i < end * s.group(); ++i) {
        const int64_t b = i / s.H, h = i % s.H, shared = h / s.group();
        detail::plain_head_backward(
            detail::head_of(dO, s, s.H, b, h), detail::head_of(Q, s, s.H, b, h),
            detail::head_of(K, s, s.Hkv, b, shared), detail::head_of(V, s, s.Hkv, b, shared),
            P + i * s.T * s.T, masks == nullptr ? nullptr : masks + i * s.T * s.T, p,
            h % s.group() == 0 ? Into::overwrite : Into::accumulate,
            detail::head_of(dQ, s, s.H, b, h), detail::head_of(dK, s, s.Hkv, b, shared),
            detail::head_of(dV, s, s.Hkv, b, shared));
      }
    });
  });
  return rounded(std::move(d), q.dtype());
}

}  // namespace yotta
