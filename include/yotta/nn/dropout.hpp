// Dropout: each number is set to zero with probability p, and the others grow by 1 / (1 - p), so that
// the mean stays. The network cannot rely on any single number.
//
//     x     [ 3  1  4  1  5 ]      p = 0.5             forward   y = x mask / (1-p)
//     mask  [ 1  0  0  1  1 ]      u8, kept            backward  dx = dy mask / (1-p)
//     y     [ 6  0  0  2 10 ]
//
// Number i of the tensor is number first_index + i of the whole run's tensor, and the mask is a pure
// function of (seed, name, that index): however the batch is cut over ranks, the same numbers are
// dropped, and the mask may be thrown away and drawn again.
//
// Cost: 2 FLOPs a number and a tenth of a Philox block; a byte of mask each.
// Reference: Srivastava et al. (2014), Dropout.
#pragma once

#include "yotta/core/random.hpp"
#include "yotta/nn/op.hpp"

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

inline void expect_probability(const char* operation, double p, Where where) {
  if (!(p >= 0 && p < 1)) fail(where, "{}: p is {}, expected 0 <= p < 1", operation, p);
}

// mask[i] = 1 where index first_index + i is kept, else 0; p is the probability of 0.
inline void draw_mask(const Random& random, double p, int64_t first_index, int64_t n,
                      uint8_t* mask) {
  const uint32_t threshold = static_cast<uint32_t>(p * 0x1p32);
  for (int64_t i = 0; i < n;) {
    const uint64_t index = static_cast<uint64_t>(first_index + i);
    const Block128 words = random.block(index / 4);
    for (uint64_t word = index % 4; word < 4 && i < n; ++word)
      mask[i++] = words[static_cast<size_t>(word)] >= threshold;
  }
}

// y = x mask / (1 - p); draws the mask (u8, x's shape) into `mask`. x has `rows` rows: number i of row r is
// number first_of_row(r) + i of the whole run's tensor, of whose rows a rank may hold parts.
template <class FirstOfRow>
Tensor dropout_rows(const Tensor& x, int64_t rows, double p, const Random& random,
                    FirstOfRow first_of_row, Tensor& mask, Where where = Where::current()) {
  expect_probability("dropout", p, where);
  charge(dropout_cost(x.dtype(), x.numel()));
  Tensor y = empty_like(x, where);
  mask = empty_beside(x, x.shape(), DType::u8, where);
  if (x.device() == Device::meta || x.numel() == 0) return y;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real* from = x.data<Real>(where);
    Real* to = y.data<Real>();
    uint8_t* keep = mask.data<uint8_t>();
    const int64_t row = x.numel() / rows;
    const Real grow = static_cast<Real>(1 / (1 - p));
    parallel_for(x.numel(), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {  // row by row
        const int64_t count = std::min(end - i, row - i % row);
        draw_mask(random, p, first_of_row(i / row) + i % row, count, keep + i);
        i += count;
      }
      for (int64_t i = begin; i < end; ++i) to[i] = keep[i] != 0 ? from[i] * grow : Real{0};
    });
  });
  return y;
}

// The same for x of any shape whose numbers are neighbours in the whole tensor too.
inline Tensor dropout(const Tensor& x, double p, const Random& random, int64_t first_index,
                      Tensor& mask, Where where = Where::current()) {
  return dropout_rows(
      x, 1, p, random, [first_index](int64_t) { return first_index; }, mask, where);
}

// dx from dy and the mask that was drawn.
inline Tensor dropout_backward(const Tensor& dy, const Tensor& mask, double p,
                               Where where = Where::current()) {
  expect_probability("dropout_backward", p, where);
  expect_shape("dropout_backward", "mask", mask, dy.shape(), where);
  expect_dtype("dropout_backward", "mask", mask, DType::u8, where);
  charge(dropout_backward_cost(dy.dtype(), dy.numel()));
  Tensor dx = empty_like(dy, where);
  if (dy.device() == Device::meta) return dx;
  visit_real(dy.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real* from = dy.data<Real>(where);
    const uint8_t* keep = mask.data<uint8_t>(where);
    Real* to = dx.data<Real>();
    const Real grow = static_cast<Real>(1 / (1 - p));
    parallel_for(dy.numel(), elements_per_thread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = keep[i] != 0 ? from[i] * grow : Real{0};
    });
  });
  return dx;
}

}  // namespace yotta
