// The bodies of nn/dropout.hpp.
#pragma once

#include "yotta/nn/dropout.hpp"

namespace yotta {

YOTTA_INLINE void expect_probability(const char* operation, double p, Where where) {
  if (!(p >= 0 && p < 1)) fail(where, "{}: p is {}, expected 0 <= p < 1", operation, p);
}

YOTTA_INLINE void draw_mask(const Random& random, double p, int64_t first_index, int64_t n,
                            uint8_t* mask) {
  const uint32_t threshold = mask_threshold(p);
  for (int64_t i = 0; i < n;) {
    const uint64_t index = static_cast<uint64_t>(first_index + i);
    const Block128 words = random.block(index / 4);
    for (uint64_t word = index % 4; word < 4 && i < n; ++word)
      mask[i++] = words[static_cast<size_t>(word)] >= threshold;
  }
}

namespace detail {

template <class Number>
void keep_masked(const char* operation, Device device, int64_t n, const KeepMasked<Number>& body,
                 Where where) {
  if (device == Device::cuda) return run_kernel(operation, body, n, where);
  parallel_for(n, elements_per_thread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i, OneLane{});
  });
}

YOTTA_INLINE void draw_masks(const char* operation, const Random& random, double p, int64_t row,
                             const FirstOfRow& first_of_row, Tensor& mask, Where where) {
  const int64_t n = mask.numel();
  if (mask.device() == Device::cuda) {
    std::vector<int64_t> first;
    for (int64_t r = 0; r * row < n; ++r) first.push_back(first_of_row(r));
    const int64_t bytes = std::ssize(first) * static_cast<int64_t>(sizeof(int64_t));
    const DeviceScratch copy(bytes, where);
    accelerator()->copy(copy.as<void>(), first.data(), bytes, Transfer::to_device);
    return run_kernel(operation,
                      DrawMask{random, mask_threshold(p), copy.as<int64_t>(), row,
                               mask.address<uint8_t>(Device::cuda)},
                      n, where);
  }
  uint8_t* keep = mask.data<uint8_t>(where);
  parallel_for(n, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {  // row by row
      const int64_t count = std::min(end - i, row - i % row);
      draw_mask(random, p, first_of_row(i / row) + i % row, count, keep + i);
      i += count;
    }
  });
}

}  // namespace detail

YOTTA_INLINE Tensor dropout_rows(const Tensor& x, int64_t rows, double p, const Random& random,
                                 const FirstOfRow& first_of_row, Tensor& mask, Where where) {
  expect_probability("dropout", p, where);
  charge(dropout_cost(x.dtype(), x.numel()));
  Tensor y = empty_like(x, where);
  mask = empty_beside(x, x.shape(), DType::u8, where);
  const Device device = x.device();
  const int64_t n = x.numel();
  if (device == Device::meta || n == 0) return y;
  detail::draw_masks("dropout", random, p, n / rows, first_of_row, mask, where);
  visit_activation(x.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::KeepMasked<Number> body{
        x.address<Number>(device, where), mask.address<uint8_t>(device),
        static_cast<Computed<Number>>(1 / (1 - p)), y.address<Number>(device)};
    detail::keep_masked("dropout", device, n, body, where);
  });
  return y;
}

YOTTA_INLINE Tensor dropout(const Tensor& x, double p, const Random& random, int64_t first_index,
                            Tensor& mask, Where where) {
  return dropout_rows(
      x, 1, p, random, [first_index](int64_t) { return first_index; }, mask, where);
}

YOTTA_INLINE Tensor dropout_backward(const Tensor& dy, const Tensor& mask, double p, Where where) {
  expect_probability("dropout_backward", p, where);
  expect_shape("dropout_backward", "mask", mask, dy.shape(), where);
  expect_dtype("dropout_backward", "mask", mask, DType::u8, where);
  charge(dropout_backward_cost(dy.dtype(), dy.numel()));
  Tensor dx = empty_like(dy, where);
  const Device device = dy.device();
  if (device == Device::meta) return dx;
  visit_activation(dy.dtype(), where, [&]<class Number>(Type<Number>) {
    const detail::KeepMasked<Number> body{
        dy.address<Number>(device, where), mask.address<uint8_t>(device, where),
        static_cast<Computed<Number>>(1 / (1 - p)), dx.address<Number>(device)};
    detail::keep_masked("dropout_backward", device, dy.numel(), body, where);
  });
  return dx;
}

}  // namespace yotta
