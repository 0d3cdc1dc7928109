// The bodies of nn/linear_ops.hpp.
#pragma once

#include "yotta/nn/linear_ops.hpp"

#include "yotta/core/cpu/convert.hpp"
#include "yotta/core/matmul.hpp"
#include "yotta/device/cuda/device_matmul.hpp"

namespace yotta {

namespace detail {

// Calls f(Type<A>, Type<B>, Type<Sum>) for a pair of types that can be multiplied.
template <class F>
void visit_factors(const char* operation, const Tensor& a, const Tensor& b, Where where, F&& f) {
  const auto is_bf16 = [](DType dtype) { return dtype == DType::bf16; };
  const auto single = [&](DType dtype) { return dtype == DType::f32 || is_bf16(dtype); };
  if (a.dtype() == DType::f64 && b.dtype() == DType::f64)
    return f(Type<double>{}, Type<double>{}, Type<double>{});
  if (!single(a.dtype()) || !single(b.dtype()))
    fail(where, "{}: {} times {}; expected both f64, or f32 and bf16", operation, a.describe(),
         b.describe());
  if (is_bf16(a.dtype()))
    return is_bf16(b.dtype()) ? f(Type<bfloat16>{}, Type<bfloat16>{}, Type<float>{})
                              : f(Type<bfloat16>{}, Type<float>{}, Type<float>{});
  return is_bf16(b.dtype()) ? f(Type<float>{}, Type<bfloat16>{}, Type<float>{})
                            : f(Type<float>{}, Type<float>{}, Type<float>{});
}

template <class T>
MatrixView<const T> view(const Tensor& x, Where where) {
  return row_major(x.data<T>(where), x.dim(0), x.dim(1));
}

template <class T>
MatrixView<T> view(Tensor& x, Where where) {
  return row_major(x.data<T>(where), x.dim(0), x.dim(1));
}

// n numbers of another type.
template <class To, class From>
void convert_on_threads(To* to, const From* from, int64_t n) {
  parallel_for(n, elements_per_thread, [&](int64_t begin, int64_t end) {
    convert(to + begin, dtype_of<To>, from + begin, dtype_of<From>, end - begin);
  });
}

inline DeviceMatrix device_view(const Tensor& x, Where where) {
  if (x.device() != Device::cuda)
    fail(where, "{} is to be multiplied on cuda; copy it with .to(Device::cuda)", x.describe());
  return {x.raw(), x.dtype(), x.dim(0), x.dim(1), x.dim(1), 1};
}

// The same on Device::cuda, whose matmul takes factors of one type: bf16 beside f32 is widened.
// `bias`: added to every row of c; undefined: none.
template <class AOf, class BOf>
void multiply_on_device(const char* operation, const Tensor& a, AOf a_of, const Tensor& b, BOf b_of,
                        Tensor& c, Into into, const Tensor& bias, Where where) {
  if (device_matmul() == nullptr)
    fail(where, "{}: this build has no matmul for {}", operation, c.describe());
  const auto wide = [&](const Tensor& x) {
    return a.dtype() == b.dtype() ? x : x.to(DType::f32, where);
  };
  const void* const added =
      bias.defined() ? device_view(bias.reshape({1, -1}), where).data : nullptr;
  visit_factors(operation, a, b, where,
                [&]<class A, class B, class Sum>(Type<A>, Type<B>, Type<Sum>) {
                  const Tensor left = wide(a), right = wide(b);
                  launch_product({a_of(device_view(left, where)), b_of(device_view(right, where)),
                                  device_view(c, where), into, added},
                                 where);
                  after_launch([left, right, c, bias] {});  // they live until then
                });
}

// c (bf16) = a b, or += a b. Where k is long, some rows at a time, whose sums are f32 in scratch.
template <class A, class B>
void round_product(MatrixView<A> a, MatrixView<B> b, MatrixView<bfloat16> c, Into into,
                   Where where) {
  check_matmul(a, b, c, where);
  if (can_round(a, c)) return matmul_rounded(a, b, c, into, context().threads, where);
  const int64_t rows = std::min(c.rows, std::max<int64_t>(256, (1 << 20) / (c.cols + 1)));
  const PackBuffer<float> scratch(rows * c.cols);
  for (int64_t begin = 0; begin < c.rows; begin += rows) {
    const int64_t count = std::min(rows, c.rows - begin), n = count * c.cols;
    bfloat16* const to = c.data + begin * c.row_stride;
    if (into == Into::accumulate) convert_on_threads(scratch.data(), to, n);
    matmul(sub_matrix(a, begin, 0, count, a.cols), b, row_major(scratch.data(), count, c.cols),
           into, context().threads, where);
    convert_on_threads(to, scratch.data(), n);
  }
}

// c = a b or c = a b', c of the sums' type, f32 or f64, or bf16: sums are rounded once. `bias`: on
// Device::cuda alone.
template <class BOf>
void multiply_into(const char* operation, const Tensor& a, const Tensor& b, BOf b_of, Tensor& c,
                   Into into, Where where, const Tensor& bias = {}) {
  if (c.device() == Device::meta) return;
  if (c.device() == Device::cuda) {
    const auto as_is = [](const DeviceMatrix& view) { return view; };
    return multiply_on_device(operation, a, as_is, b, b_of, c, into, bias, where);
  }
  visit_factors(operation, a, b, where,
                [&]<class A, class B, class Sum>(Type<A>, Type<B>, Type<Sum>) {
                  const MatrixView<const A> left = view<A>(a, where);
                  const auto right = b_of(view<B>(b, where));
                  if (c.dtype() == dtype_of<Sum>)
                    return matmul(left, right, view<Sum>(c, where), into, context().threads, where);
                  if constexpr (std::is_same_v<Sum, float>)
                    round_product(left, right, view<bfloat16>(c, where), into, where);
                });
}

// bias (N) into every row of y (M, N), on the CPU.
inline void fill_rows(Tensor& y, const Tensor& bias) {
  const int64_t M = y.dim(0), row_bytes = bias.nbytes();
  std::byte* to = static_cast<std::byte*>(y.raw());
  parallel_for(M, rows_per_thread(y.dim(1)), [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      std::memcpy(to + m * row_bytes, bias.raw(), static_cast<size_t>(row_bytes));
  });
}

inline void expect_linear(const char* operation, const Tensor& a, const Tensor& w, int w_dim,
                          Where where) {
  if (a.ndim() != 2 || w.ndim() != 2 || a.dim(1) != w.dim(w_dim))
    fail(where, "{}: {} is {} and w (N, K) is {}; size 1 of the first and size {} of w must agree",
         operation, w_dim == 1 ? "x (M, K)" : "dy (M, N)", a.describe(), w.describe(), w_dim);
}

// dw (N, K) += dy (M, N)' x (M, K).
inline void add_weight_product(const char* operation, const Tensor& dy, const Tensor& x, Tensor& dw,
                               Where where) {
  if (dw.device() == Device::meta) return;
  if (dw.device() == Device::cuda) {
    const auto transpose = [](const DeviceMatrix& view) { return transposed(view); };
    const auto as_is = [](const DeviceMatrix& view) { return view; };
    return multiply_on_device(operation, dy, transpose, x, as_is, dw, Into::accumulate, {}, where);
  }
  visit_factors(operation, dy, x, where,
                [&]<class A, class B, class Sum>(Type<A>, Type<B>, Type<Sum>) {
                  matmul(transposed(view<A>(dy, where)), view<B>(x, where), view<Sum>(dw, where),
                         Into::accumulate, context().threads, where);
                });
}

}  // namespace detail

YOTTA_INLINE Tensor linear_as(DType type, const Tensor& x, const Tensor& w, const Tensor& bias,
                              Where where) {
  detail::expect_linear("linear", x, w, 1, where);
  if (bias.defined()) expect_shape("linear", "bias", bias, {w.dim(0)}, where);
  Tensor y = empty_beside(x, {x.dim(0), w.dim(0)}, type, where);
  const bool begins_as_bias = bias.defined() && y.device() == Device::cpu;
  if (bias.defined()) {
    if (bias.dtype() != type)
      fail(where, "linear: bias is {}, y is {}; they must agree", bias.describe(), y.describe());
    charge(add_bias_cost(x.dtype(), x.dim(0), w.dim(0)));
    if (begins_as_bias) detail::fill_rows(y, bias);
  }
  charge(linear_cost("linear", x.dtype(), x.dim(0), w.dim(0), x.dim(1)));
  const auto transpose = [](auto view) { return transposed(view); };
  detail::multiply_into("linear", x, w, transpose, y,
                        begins_as_bias ? Into::accumulate : Into::overwrite, where, bias);
  return y;
}

YOTTA_INLINE Tensor linear(const Tensor& x, const Tensor& w, Where where) {
  return linear_as(x.dtype(), x, w, {}, where);
}

YOTTA_INLINE Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias, Where where) {
  expect_shape("linear", "bias", bias, {w.dim(0)}, where);
  return linear_as(x.dtype(), x, w, bias, where);
}

YOTTA_INLINE void linear_backward_input_into(Tensor& dx, Into into, const Tensor& dy,
                                             const Tensor& w, Where where) {
  detail::expect_linear("linear_backward_input", dy, w, 0, where);
  expect_shape("linear_backward_input", "dx", dx, {dy.dim(0), w.dim(1)}, where);
  charge(linear_cost("linear_backward_input", dy.dtype(), dy.dim(0), w.dim(1), w.dim(0)));
  const auto as_is = [](auto view) { return view; };
  detail::multiply_into("linear_backward_input", dy, w, as_is, dx, into, where);
}

YOTTA_INLINE Tensor linear_backward_input(const Tensor& dy, const Tensor& w, Where where) {
  detail::expect_linear("linear_backward_input", dy, w, 0, where);
  Tensor dx = empty_beside(dy, {dy.dim(0), w.dim(1)}, dy.dtype(), where);
  linear_backward_input_into(dx, Into::overwrite, dy, w, where);
  return dx;
}

YOTTA_INLINE void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw,
                                         Where where) {
  if (dy.ndim() != 2 || x.ndim() != 2 || dy.dim(0) != x.dim(0))
    fail(where, "linear_backward_weight: dy (M, N) is {} and x (M, K) is {}; rows must agree",
         dy.describe(), x.describe());
  expect_shape("linear_backward_weight", "dw", dw, {dy.dim(1), x.dim(1)}, where);
  charge(linear_cost("linear_backward_weight", x.dtype(), dw.dim(0), dw.dim(1), dy.dim(0)));
  detail::add_weight_product("linear_backward_weight", dy, x, dw, where);
}

}  // namespace yotta
