// The bodies of nn/latent_attention.hpp.
#pragma once

#include "yotta/nn/latent_attention.hpp"

#include <algorithm>

#include "yotta/core/parallel_for.hpp"

namespace yotta {

namespace detail {

// Of each token's heads: p numbers, then t. Of the t numbers a token has `sets`, one a head or one.
struct HeadSizes {
  int64_t heads, p, t, sets;
  int64_t whole() const { return p + t; }
};

template <class Number>
void join_token(const HeadSizes& s, const Number* a, const Number* b, Number* to) {
  for (int64_t h = 0; h < s.heads; ++h, a += s.p, to += s.whole()) {
    std::copy_n(a, s.p, to);
    std::copy_n(s.sets == 1 ? b : b + h * s.t, s.t, to + s.p);
  }
}

template <class Number>
void split_token(const HeadSizes& s, const Number* from, Number* a, Number* b) {
  for (int64_t h = 0; h < s.heads; ++h) {
    std::copy_n(from + h * s.whole(), s.p, a + h * s.p);
    if (s.sets > 1) std::copy_n(from + h * s.whole() + s.p, s.t, b + h * s.t);
  }
  if (s.sets > 1) return;
  for (int64_t i = 0; i < s.t; ++i) {  // one for all heads: the sum of what they give back
    Computed<Number> sum = 0;
    for (int64_t h = 0; h < s.heads; ++h)
      sum += static_cast<Computed<Number>>(from[h * s.whole() + s.p + i]);
    b[i] = static_cast<Number>(sum);
  }
}

}  // namespace detail

YOTTA_INLINE Tensor join_heads(const Tensor& a, const Tensor& b, Where where) {
  expect_dims("join_heads", "a", a, 4, "(B, T, H, p)", where);
  const int64_t B = a.dim(0), T = a.dim(1);
  expect_dims("join_heads", "b", b, 4, "(B, T, H or 1, t)", where);
  const detail::HeadSizes s{a.dim(2), a.dim(3), b.dim(3), b.dim(2)};
  expect_shape("join_heads", "b", b, {B, T, s.sets == 1 ? 1 : s.heads, s.t}, where);
  expect_dtype("join_heads", "b", b, a.dtype(), where);
  Tensor y = empty_beside(a, {B, T, s.heads, s.whole()}, a.dtype(), where);
  charge(op_cost("join_heads", a.dtype(), 0, a.numel() + b.numel(), y.numel()));
  if (a.device() == Device::meta) return y;
  visit_activation(a.dtype(), where, [&]<class Number>(Type<Number>) {
    const Number *from_a = a.data<Number>(where), *from_b = b.data<Number>(where);
    Number* to = y.data<Number>(where);
    parallel_for(B * T, rows_per_thread(s.heads * s.whole()), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        detail::join_token(s, from_a + n * s.heads * s.p, from_b + n * s.sets * s.t,
                           to + n * s.heads * s.whole());
    });
  });
  return y;
}

YOTTA_INLINE HeadParts split_heads(const Tensor& dy, int64_t p, bool shared, Where where) {
  expect_dims("split_heads", "dy", dy, 4, "(B, T, H, p + t)", where);
  const int64_t B = dy.dim(0), T = dy.dim(1), H = dy.dim(2), t = dy.dim(3) - p;
  if (p < 1 || t < 1)
    fail(where, "split_heads: {} of the {} numbers of a head; expected 1 to {}", p, dy.dim(3),
         dy.dim(3) - 1);
  const detail::HeadSizes s{H, p, t, shared ? 1 : H};
  HeadParts d{empty_beside(dy, {B, T, H, p}, dy.dtype(), where),
              empty_beside(dy, {B, T, s.sets, t}, dy.dtype(), where)};
  const int64_t sums = shared ? (H - 1) * B * T * t : 0;
  charge(op_cost("split_heads", dy.dtype(), sums, dy.numel(), d.a.numel() + d.b.numel()));
  if (dy.device() == Device::meta) return d;
  visit_activation(dy.dtype(), where, [&]<class Number>(Type<Number>) {
    const Number* from = dy.data<Number>(where);
    Number *a = d.a.data<Number>(where), *b = d.b.data<Number>(where);
    parallel_for(B * T, rows_per_thread(H * s.whole()), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        detail::split_token(s, from + n * H * s.whole(), a + n * H * p, b + n * s.sets * t);
    });
  });
  return d;
}

}  // namespace yotta
