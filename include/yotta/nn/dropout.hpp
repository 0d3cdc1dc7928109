// Dropout: each number is set to zero with probability p, and the others grow by 1 / (1 - p), so
// that the mean stays. The network cannot rely on any single number.
//
//     x     [ 3  1  4  1  5 ]      p = 0.5             forward   y = x mask / (1-p)
//     mask  [ 1  0  0  1  1 ]      u8, kept            backward  dx = dy mask / (1-p)
//     y     [ 6  0  0  2 10 ]
//
// Number i of the tensor is number first_index + i of the whole run's tensor, and the mask is a
// pure function of (seed, name, that index): however the batch is split over ranks, the same
// numbers are dropped, and the mask may be thrown away and drawn again.
//
// Cost: 2 FLOPs and a quarter of a Philox block per number; one byte of mask each.
// Reference: Srivastava et al. (2014), Dropout.
#pragma once

#include <functional>
#include <vector>

#include "yotta/core/random.hpp"
#include "yotta/nn/cpu/body.hpp"

namespace yotta {

constexpr OpCost dropout_cost(DType dtype, int64_t n) {
  OpCost cost = elementwise_cost("dropout", dtype, n, 2, 1, 1);
  cost.bytes_written += static_cast<double>(n);  // the mask
  return cost;
}
constexpr OpCost dropout_backward_cost(DType dtype, int64_t n) {
  OpCost cost = elementwise_cost("dropout_backward", dtype, n, 2, 1, 1);
  cost.bytes_read += static_cast<double>(n);
  return cost;
}

// Throws unless p is a probability below 1.
YOTTA_API void expect_probability(const char* operation, double p, Where where);

// A number whose draw is below this is dropped.
inline uint32_t mask_threshold(double p) { return static_cast<uint32_t>(p * 0x1p32); }

// mask[i] = 1 where index first_index + i is kept, else 0; p is the probability of 0.
YOTTA_API void draw_mask(const Random& random, double p, int64_t first_index, int64_t n,
                         uint8_t* mask);

// For the numbers of row `row` of a mask: where the first of them is in the whole run's tensor.
using FirstOfRow = std::function<int64_t(int64_t row)>;

// y = x mask / (1 - p); draws the mask (u8, x's shape) into `mask`. x has `rows` rows: number i of
// row r is number first_of_row(r) + i of the whole run's tensor: a rank may hold parts of its rows.
YOTTA_API Tensor dropout_rows(const Tensor& x, int64_t rows, double p, const Random& random,
                              const FirstOfRow& first_of_row, Tensor& mask,
                              Where where = Where::current());
// The same for x of any shape whose numbers are neighbours in the whole tensor too.
YOTTA_API Tensor dropout(const Tensor& x, double p, const Random& random, int64_t first_index,
                         Tensor& mask, Where where = Where::current());

// dx from dy and the mask that was drawn.
YOTTA_API Tensor dropout_backward(const Tensor& dy, const Tensor& mask, double p,
                                  Where where = Where::current());

namespace detail {

// Draws a mask (u8) whose rows are `row` long; row r begins at number first_of_row(r) of
// the whole run's tensor.
YOTTA_API void draw_masks(const char* operation, const Random& random, double p, int64_t row,
                          const FirstOfRow& first_of_row, Tensor& mask, Where where);

// y = x grow where the mask keeps, else 0. x and y may be the same.
template <class Number>
struct KeepMasked {
  using Real = Computed<Number>;
  const Number* x;
  const uint8_t* mask;
  Real grow;
  Number* y;
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const {
    y[i] = static_cast<Number>(mask[i] != 0 ? static_cast<Real>(x[i]) * grow : Real{0});
  }
};

// Number i of a mask whose rows are `row` long. Each thread of the kernel draws a Philox block of
// its own and uses one of its four words; draw_mask uses all four.
struct DrawMask {
  Random random;
  uint32_t threshold;
  const int64_t* first;  // of each row, in the whole run's tensor
  int64_t row;
  uint8_t* mask;
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const {
    mask[i] = random.bits(static_cast<uint64_t>(first[i / row] + i % row)) >= threshold;
  }
};

}  // namespace detail

#if YOTTA_BODIES_OF(nn)

void expect_probability(const char* operation, double p, Where where) {
  if (!(p >= 0 && p < 1)) fail(where, "{}: p is {}, expected 0 <= p < 1", operation, p);
}

void draw_mask(const Random& random, double p, int64_t first_index, int64_t n, uint8_t* mask) {
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

void draw_masks(const char* operation, const Random& random, double p, int64_t row,
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

Tensor dropout_rows(const Tensor& x, int64_t rows, double p, const Random& random,
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

Tensor dropout(const Tensor& x, double p, const Random& random, int64_t first_index, Tensor& mask,
               Where where) {
  return dropout_rows(
      x, 1, p, random, [first_index](int64_t) { return first_index; }, mask, where);
}

Tensor dropout_backward(const Tensor& dy, const Tensor& mask, double p, Where where) {
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

#endif  // YOTTA_BODIES

}  // namespace yotta
