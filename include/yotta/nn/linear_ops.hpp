// Matmul on tensors, in the three shapes that a linear layer needs. They do all of a transformer's
// FLOPs but attention's: 2 per parameter and token forward, 4 backward.
//
//     x (M, K)     w (N, K)     y = x w'    (M, N)       forward            2 M N K
//     dy (M, N)                 dx = dy w   (M, K)       backward, input    2 M N K
//                               dw += dy' x (N, K)       backward, weight   2 M N K
//
// Why: y(m,n) = sum_k x(m,k) w(n,k), so x(m,k) reaches the loss through all n with factor w(n,k),
// and w(n,k) through all m with factor x(m,k). The weight's rows are outputs, as in PyTorch.
//
// Types: f64; or f32 and bf16 in any mixture, summed in f32. The result has the type of x (of dy),
// rounded once if that is bf16; dw is f32 (f64 if all is).
// Letters: M tokens, K input features, N output features.
#pragma once

#include "yotta/core/matrix_view.hpp"
#include "yotta/nn/elementwise.hpp"

namespace yotta {

// C (m, n) = A (m, k) B (k, n): operands read once, the result written once.
constexpr OpCost linear_cost(const char* name, DType dtype, int64_t m, int64_t n, int64_t k) {
  return op_cost(name, dtype, 2 * m * n * k, m * k + k * n, m * n);
}

// y (M, N) = x (M, K) w (N, K)' + bias (N), if there is one, in type `type`: the type of the sums
// (f32 for bf16 factors, if y is only one term of a sum), or rounded once to another. On the CPU
// the product is added to rows that hold the bias already, on a GPU the matmul adds the bias before
// it stores a sum: both are cheaper than a second pass over y.
Tensor linear_as(DType type, const Tensor& x, const Tensor& w, const Tensor& bias = {},
                 Where where = Where::current());

// y (M, N) = x (M, K) w (N, K)', of x's type; with a bias (N) if there is one.
Tensor linear(const Tensor& x, const Tensor& w, Where where = Where::current());

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias, Where where = Where::current());

// dx (M, K) += dy (M, N) w (N, K), or dx = dy w.
void linear_backward_input_into(Tensor& dx, Into into, const Tensor& dy, const Tensor& w,
                                Where where = Where::current());

// dx (M, K) = dy (M, N) w (N, K).
Tensor linear_backward_input(const Tensor& dy, const Tensor& w, Where where = Where::current());

// dw (N, K) += dy (M, N)' x (M, K).
void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw,
                            Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/linear_ops.ipp"
#endif
