// The bodies of nn/expert_rows.hpp.
#pragma once

#include "yotta/nn/expert_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "yotta/core/parallel_for.hpp"
#include "yotta/nn/expert_choice.hpp"

namespace yotta {

YOTTA_INLINE int64_t expert_capacity(double factor, int64_t n, int64_t top_k, int64_t experts,
                                     Where where) {
  if (!(factor >= 0 && factor <= 1e6))
    fail(where,
         "the capacity factor of experts is {}, expected a number from 0 (drop nothing) to "
         "1e6",
         factor);
  if (factor == 0) return no_capacity;
  return static_cast<int64_t>(
      std::ceil(factor * static_cast<double>(n * top_k) / static_cast<double>(experts)));
}

namespace detail {

// Throws unless each row is of one of n k assignments.
inline void expect_assignments(const Tensor& assignment, int64_t assignments, Where where) {
  for_each_id(assignment, where, [&](int64_t i, int32_t a) {
    if (a < 0 || a >= assignments)
      fail(where, "row {} is of assignment {}, but there are {}", i, a, assignments);
  });
}

// For each of n k assignments its row, or -1 if it was dropped.
inline std::vector<int64_t> row_of_assignment(const Tensor& assignment, int64_t assignments,
                                              Where where) {
  expect_assignments(assignment, assignments, where);
  std::vector<int64_t> row(static_cast<size_t>(assignments), -1);
  for_each_id(assignment, where, [&](int64_t i, int32_t a) { row[static_cast<size_t>(a)] = i; });
  return row;
}

// y (n, C): of each token i the sum of its rows, times weights(i) (k).
template <class Number, class Weights>
void sum_rows(const Tensor& rows, const std::vector<int64_t>& row_of, int64_t top_k, Tensor& y,
              Weights weights, Where where) {
  using Real = Computed<Number>;
  const int64_t C = rows.dim(1);
  const Number* from = rows.data<Number>(where);
  Number* to = y.data<Number>(where);
  parallel_for(y.dim(0), rows_per_thread(C * top_k), [&](int64_t begin, int64_t end) {
    std::vector<Real> sum(static_cast<size_t>(C));
    for (int64_t n = begin; n < end; ++n) {
      std::fill(sum.begin(), sum.end(), Real{0});
      const std::span own(row_of.data() + n * top_k, static_cast<size_t>(top_k));
      combine_token<Number>(from, own, weights(n), sum);
      for (int64_t c = 0; c < C; ++c)
        to[n * C + c] = static_cast<Number>(sum[static_cast<size_t>(c)]);
    }
  });
}

// The assignments that each expert takes, in the order of tokens.
inline std::vector<std::vector<int32_t>> taken_by_expert(const Tensor& expert, int64_t experts,
                                                         int64_t capacity,
                                                         std::span<const int64_t> before,
                                                         Where where) {
  const int32_t* id = expert.data<int32_t>(where);
  std::vector<std::vector<int32_t>> taken(static_cast<size_t>(experts));
  for (int64_t a = 0; a < expert.numel(); ++a) {
    const int64_t e = id[a];
    if (e < 0 || e >= experts)
      fail(where, "sort_by_expert: assignment {} goes to expert {} of {}", a, e, experts);
    std::vector<int32_t>& to = taken[static_cast<size_t>(e)];
    const int64_t earlier = before.empty() ? 0 : before[static_cast<size_t>(e)];
    if (std::ssize(to) + earlier < capacity) to.push_back(static_cast<int32_t>(a));
  }
  return taken;
}

// The same on meta, as counts alone. uniform_expert() goes round the experts: those before the one
// that would be next have one more.
inline std::vector<int64_t> uniform_counts(int64_t assignments, int64_t experts, int64_t capacity,
                                           std::span<const int64_t> before) {
  const int64_t next = uniform_expert(assignments, experts);
  std::vector<int64_t> counts;
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t earlier = before.empty() ? 0 : before[static_cast<size_t>(e)];
    const int64_t all = assignments / experts + (e < next ? 1 : 0);
    counts.push_back(std::clamp<int64_t>(capacity - earlier, 0, all));
  }
  return counts;
}

// Fills both gradients; a row's assignment is its own, so no two threads write the same number.
template <class Number>
void combine_gradients(const Tensor& dy, const Tensor& rows, const Tensor& assignment,
                       const Tensor& weight, CombineGradients& d, Where where) {
  using Real = Computed<Number>;
  const int64_t m = rows.dim(0), C = rows.dim(1), k = weight.dim(1);
  const Number *g = dy.data<Number>(where), *r = rows.data<Number>(where);
  const Real* w = weight.data<Real>(where);
  const int32_t* of = assignment.data<int32_t>(where);
  Number* dr = d.drows.data<Number>();
  Real* dw = d.dweight.data<Real>();
  const auto width = static_cast<size_t>(C);
  parallel_for(m, rows_per_thread(C), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      dw[of[i]] = combine_token_backward<Number>({g + of[i] / k * C, width}, {r + i * C, width},
                                                 w[of[i]], {dr + i * C, width});
  });
}

}  // namespace detail

YOTTA_INLINE ExpertRows sort_by_expert(const Tensor& expert, int64_t experts, int64_t capacity,
                                       std::span<const int64_t> before, Where where) {
  expect_dims("sort_by_expert", "expert", expert, 2, "(n, k)", where);
  if (!before.empty() && std::ssize(before) != experts)
    fail(where, "sort_by_expert: {} counts of earlier assignments for {} experts", before.size(),
         experts);
  ExpertRows sorted;
  if (expert.device() == Device::meta) {
    sorted.counts = detail::uniform_counts(expert.numel(), experts, capacity, before);
    const int64_t m = std::accumulate(sorted.counts.begin(), sorted.counts.end(), int64_t{0});
    sorted.assignment = empty_beside(expert, {m}, DType::i32, where);
    return sorted;
  }
  std::vector<int32_t> all;
  for (const auto& each : detail::taken_by_expert(expert, experts, capacity, before, where)) {
    sorted.counts.push_back(std::ssize(each));
    all.insert(all.end(), each.begin(), each.end());
  }
  const int64_t m = std::ssize(all);
  sorted.assignment = empty_beside(expert, {m}, DType::i32, where);
  sorted.assignment.copy_from(Tensor::from<int32_t>(all, {m}, where), where);
  return sorted;
}

YOTTA_INLINE Tensor gather_rows(const Tensor& x, const Tensor& assignment, int64_t top_k,
                                Where where) {
  expect_dims("gather_rows", "x", x, 2, "(n, C)", where);
  const int64_t m = assignment.numel(), C = x.dim(1), bytes = C * bytes_of(x.dtype());
  charge(op_cost("gather_rows", x.dtype(), 0, m * C, m * C));
  Tensor rows = empty_beside(x, {m, C}, x.dtype(), where);
  if (x.device() == Device::meta) return rows;
  detail::expect_assignments(assignment, x.dim(0) * top_k, where);
  const int32_t* a = assignment.data<int32_t>(where);
  parallel_for(m, rows_per_thread(C), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(static_cast<std::byte*>(rows.raw()) + i * bytes,
                  static_cast<const std::byte*>(x.raw()) + a[i] / top_k * bytes,
                  static_cast<size_t>(bytes));
  });
  return rows;
}

YOTTA_INLINE Tensor gather_rows_backward(const Tensor& drows, const Tensor& assignment, int64_t n,
                                         int64_t top_k, Where where) {
  expect_dims("gather_rows_backward", "drows", drows, 2, "(m, C)", where);
  const int64_t m = drows.dim(0), C = drows.dim(1);
  expect_shape("gather_rows_backward", "assignment", assignment, {m}, where);
  charge(op_cost("gather_rows_backward", drows.dtype(), m * C, m * C, n * C));
  Tensor dx = empty_beside(drows, {n, C}, drows.dtype(), where);
  if (drows.device() == Device::meta) return dx;
  const auto row_of = detail::row_of_assignment(assignment, n * top_k, where);
  visit_activation(drows.dtype(), where, [&]<class Number>(Type<Number>) {
    const std::vector<Computed<Number>> ones(static_cast<size_t>(top_k), 1);
    const auto weights = [&](int64_t) { return std::span(ones); };
    detail::sum_rows<Number>(drows, row_of, top_k, dx, weights, where);
  });
  return dx;
}

YOTTA_INLINE Tensor combine_rows(const Tensor& rows, const Tensor& assignment, const Tensor& weight,
                                 Where where) {
  expect_dims("combine_rows", "rows", rows, 2, "(m, C)", where);
  expect_dims("combine_rows", "weight", weight, 2, "(n, k)", where);
  expect_dtype("combine_rows", "weight", weight, computed(rows.dtype()), where);
  const int64_t m = rows.dim(0), C = rows.dim(1), n = weight.dim(0), k = weight.dim(1);
  expect_shape("combine_rows", "assignment", assignment, {m}, where);
  charge(op_cost("combine_rows", rows.dtype(), 2 * m * C, m * C, n * C));
  Tensor y = empty_beside(rows, {n, C}, rows.dtype(), where);
  if (rows.device() == Device::meta) return y;
  const auto row_of = detail::row_of_assignment(assignment, n * k, where);
  visit_activation(rows.dtype(), where, [&]<class Number>(Type<Number>) {
    const Computed<Number>* w = weight.data<Computed<Number>>(where);
    const auto weights = [&](int64_t i) { return std::span(w + i * k, static_cast<size_t>(k)); };
    detail::sum_rows<Number>(rows, row_of, k, y, weights, where);
  });
  return y;
}

YOTTA_INLINE CombineGradients combine_rows_backward(const Tensor& dy, const Tensor& rows,
                                                    const Tensor& assignment, const Tensor& weight,
                                                    Where where) {
  expect_dims("combine_rows_backward", "rows", rows, 2, "(m, C)", where);
  expect_dims("combine_rows_backward", "weight", weight, 2, "(n, k)", where);
  expect_dtype("combine_rows_backward", "weight", weight, computed(rows.dtype()), where);
  expect_dtype("combine_rows_backward", "dy", dy, rows.dtype(), where);
  const int64_t m = rows.dim(0), C = rows.dim(1), n = weight.dim(0), k = weight.dim(1);
  expect_shape("combine_rows_backward", "assignment", assignment, {m}, where);
  expect_shape("combine_rows_backward", "dy", dy, {n, C}, where);
  charge(op_cost("combine_rows_backward", rows.dtype(), 3 * m * C, 2 * m * C, m * C));
  CombineGradients d{empty_like(rows, where), zeros_like(weight, where)};
  if (rows.device() == Device::meta) return d;
  detail::expect_assignments(assignment, n * k, where);
  visit_activation(rows.dtype(), where, [&]<class Number>(Type<Number>) {
    detail::combine_gradients<Number>(dy, rows, assignment, weight, d, where);
  });
  return d;
}

}  // namespace yotta
