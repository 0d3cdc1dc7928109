// Expert rows: tokens sorted by the expert that they go to, and back.
//
// An expert's matmul wants its tokens as neighbouring rows. So each token is copied once for each
// of its k experts, sorted by expert; after the experts the k results are added up again.
//
//     token      0    1    2              assignment = k token + choice, here k = 2
//     experts   1,2  0,1  1,0             assignments 0 ... 5 go to 1 2 0 1 1 0
//
//     sort_by_expert   assignments  2 5 | 0 3 4 | 1        stable: by expert, then by token
//                      counts       2     3       1
//     gather_rows      rows of x    1 2 | 0 1 2 | 0        (m, C), m = 6
//     combine_rows     y (n, C)     y of a token = sum of weight times its rows
//
// Each is the other's backward but for the weights: gather_rows_backward adds up with weight 1, and
// combine_rows_backward copies dy, times weight, and gives dweight = dy . row.
//
// Capacity: an expert may take at most `capacity` assignments; those that come later, in the order
// of tokens, are dropped. A dropped assignment is in no row, adds nothing to y and gets dweight 0:
// a token that has lost all k goes on in the residual stream alone.
//
//     capacity 2       assignments  2 5 | 0 3 | 1          4 is dropped
//
// Cost: m C numbers read and written each way; m = n k less what is dropped. f32, f64 or bf16,
// added up in f32 (f64), on the CPU; on meta the spread is uniform. Letters: n tokens, C width, E
// experts, k experts of a token, m rows. Reference: Gale et al. (2022), MegaBlocks, section 4
// (permutation, padding-free).
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "yotta/nn/op.hpp"

namespace yotta {

inline constexpr int64_t no_capacity = std::numeric_limits<int64_t>::max();  // nothing is dropped

// On meta, where no values say it, assignment a = token k + choice goes to expert a mod E.
constexpr int64_t uniform_expert(int64_t assignment, int64_t experts) {
  return assignment % experts;
}

// ceil(factor n k / E): how many of n k assignments an expert may take; factor 0: all.
int64_t expert_capacity(double factor, int64_t n, int64_t top_k, int64_t experts,
                        Where where = Where::current());

// Which assignment each row is of.
struct ExpertRows {
  Tensor assignment;            // (m) i32, by expert, then by token
  std::vector<int64_t> counts;  // (E), rows of each expert; they add up to m
};

// Sorts expert (n, k). `before`: assignments of each expert that come earlier, on other ranks, and
// count against the capacity; empty: none.
ExpertRows sort_by_expert(const Tensor& expert, int64_t experts, int64_t capacity = no_capacity,
                          std::span<const int64_t> before = {}, Where where = Where::current());

// rows (m, C) of x (n, C): row i is that of token assignment[i] / k.
Tensor gather_rows(const Tensor& x, const Tensor& assignment, int64_t top_k,
                   Where where = Where::current());
// dx (n, C) of drows (m, C).
Tensor gather_rows_backward(const Tensor& drows, const Tensor& assignment, int64_t n, int64_t top_k,
                            Where where = Where::current());

// y (n, C) of rows (m, C) and weight (n, k): the weighted sum of each token's rows.
Tensor combine_rows(const Tensor& rows, const Tensor& assignment, const Tensor& weight,
                    Where where = Where::current());

struct CombineGradients {
  Tensor drows;    // (m, C)
  Tensor dweight;  // (n, k)
};
CombineGradients combine_rows_backward(const Tensor& dy, const Tensor& rows,
                                       const Tensor& assignment, const Tensor& weight,
                                       Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/expert_rows.ipp"
#endif
