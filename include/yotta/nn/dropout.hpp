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
void expect_probability(const char* operation, double p, Where where);

// A number whose draw is below this is dropped.
inline uint32_t mask_threshold(double p) { return static_cast<uint32_t>(p * 0x1p32); }

// mask[i] = 1 where index first_index + i is kept, else 0; p is the probability of 0.
void draw_mask(const Random& random, double p, int64_t first_index, int64_t n, uint8_t* mask);

// For the numbers of row `row` of a mask: where the first of them is in the whole run's tensor.
using FirstOfRow = std::function<int64_t(int64_t row)>;

// y = x mask / (1 - p); draws the mask (u8, x's shape) into `mask`. x has `rows` rows: number i of
// row r is number first_of_row(r) + i of the whole run's tensor: a rank may hold parts of its rows.
Tensor dropout_rows(const Tensor& x, int64_t rows, double p, const Random& random,
                    const FirstOfRow& first_of_row, Tensor& mask, Where where = Where::current());
// The same for x of any shape whose numbers are neighbours in the whole tensor too.
Tensor dropout(const Tensor& x, double p, const Random& random, int64_t first_index, Tensor& mask,
               Where where = Where::current());

// dx from dy and the mask that was drawn.
Tensor dropout_backward(const Tensor& dy, const Tensor& mask, double p,
                        Where where = Where::current());

namespace detail {

// Draws a mask (u8) whose rows are `row` long; row r begins at number first_of_row(r) of
// the whole run's tensor.
void draw_masks(const char* operation, const Random& random, double p, int64_t row,
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

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/dropout.ipp"
#endif
