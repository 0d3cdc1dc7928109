// A matmul of logarithms: probabilities are added and multiplied, but they are kept as logarithms,
// since a product of a thousand of them is below the smallest float. Hidden Markov models, CTC and
// parsers need it; no tensor core has it.
//
//     matmul       C(i, j) =     sum over l of  A(i, l) B(l, j)          one FMA for each i, j, l
//     log_matmul   C(i, j) = log sum over l of exp(A(i, l) + B(l, j))    one exp for each i, j, l
//
// The way out is the oldest one: turn it into what the chip is good at. Take the largest number r_i
// out of each row of A and the largest c_j out of each column of B:
//
//     C(i, j) = r_i + c_j + log sum over l of exp(A(i, l) - r_i) exp(B(l, j) - c_j)
//
// What is left is a matmul of numbers from 0 to 1, and m k + k n exps in place of m n k. It fails
// where a row's and a column's large numbers do not meet at the same l: all products underflow, and
// the sum is lost. Such a sum is easy to see, since it is small, and is computed again term by
// term.
//
// What one would have to build, to have it at a matmul's rate for any numbers: an instruction that
// keeps a largest number beside each sum and rescales the sum when it grows, the online softmax of
// lesson 12, for 16 x 8 sums at once.
//
// Cost: log_matmul_exps(); 2 m n k FLOPs; (m + n) k numbers of memory.
// Contract: a (m, k), b (k, n), c (m, n), any strides, no overlap. Numbers are below infinity;
// minus infinity is the logarithm of 0.
// Letters: as in core/matmul_ladder.hpp.
// References: Rush, "Torch-Struct: Deep Structured Prediction Library" (ACL 2020), section 5;
// Rabiner, "A Tutorial on Hidden Markov Models" (1989), section V.A (scaling).
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "yotta/core/matmul.hpp"

namespace yotta {

inline constexpr float log_zero = -std::numeric_limits<float>::infinity();

// One number of C, term by term. Without the largest term taken out exp overflows at 89.
inline float log_dot(MatrixView<const float> a, MatrixView<const float> b, int64_t i, int64_t j) {
  float largest = log_zero;
  for (int64_t l = 0; l < a.cols; ++l) largest = std::max(largest, a(i, l) + b(l, j));
  if (largest == log_zero) largest = 0;  // all terms are 0, or one is a NaN
  double sum = 0;
  for (int64_t l = 0; l < a.cols; ++l)
    sum += static_cast<double>(std::exp(a(i, l) + b(l, j) - largest));
  return largest + static_cast<float>(std::log(sum));
}

inline void log_matmul_naive(MatrixView<const float> a, MatrixView<const float> b,
                             MatrixView<float> c, Where where = Where::current()) {
  check_matmul(a, b, c, where);
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) c(i, j) = log_dot(a, b, i, j);
}

// exp(row - its largest number), for each row of x, and that number in `taken` (rows). NaNs for a
// row of logarithms of 0: its sums count as lost.
inline std::vector<float> exp_rows(MatrixView<const float> x, std::vector<float>& taken) {
  std::vector<float> scaled;
  scaled.reserve(static_cast<size_t>(x.rows * x.cols));
  taken.assign(static_cast<size_t>(x.rows), log_zero);
  for (int64_t i = 0; i < x.rows; ++i) {
    float& largest = taken[static_cast<size_t>(i)];
    for (int64_t l = 0; l < x.cols; ++l) largest = std::max(largest, x(i, l));
    for (int64_t l = 0; l < x.cols; ++l) scaled.push_back(std::exp(x(i, l) - largest));
  }
  return scaled;
}

// Below this a sum of k products may have lost more than f32's last bit: what underflows is less
// than 2^-125 a product.
constexpr float least_sum(int64_t k) { return static_cast<float>(k) * 0x1p-100f; }

// By a matmul. Returns how many numbers of C it had to compute term by term.
inline int64_t log_matmul(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c,
                          int threads = 1, Where where = Where::current()) {
  check_matmul(a, b, c, where);
  std::vector<float> r, s;
  const std::vector<float> left = exp_rows(a, r), right = exp_rows(transposed(b), s);
  matmul(row_major(left.data(), a.rows, a.cols),
         transposed(row_major(right.data(), b.cols, b.rows)), c, Into::overwrite, threads);
  int64_t again = 0;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) {
      float& sum = c(i, j);
      const bool lost = !(sum >= least_sum(a.cols));
      again += lost;
      sum = lost ? log_dot(a, b, i, j)
                 : r[static_cast<size_t>(i)] + s[static_cast<size_t>(j)] + std::log(sum);
    }
  return again;
}

// Exponentials: of the naive way, and by a matmul if no sum is lost.
constexpr double naive_exps(double m, double n, double k) { return m * n * k; }
constexpr double log_matmul_exps(double m, double n, double k) { return (m + n) * k; }

}  // namespace yotta
