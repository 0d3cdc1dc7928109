// Layer normalisation and RMS normalisation: each row brought to mean 0 and size 1, or only to size 1.
//
//     row of x (C)                            layernorm                    rmsnorm
//     mean                                    m = mean(x)                  (none: m = 0)
//     one over the size                       r = 1 / sqrt(mean((x-m)^2) + eps)
//     normalised                              n = (x - m) r
//     output                                  y = n w + b                  y = n w
//
// Backward, with g = dy w. n depends on x directly and through m and r: dm/dx_i = 1/C takes the mean out
// of g, and dr/dx_i = -r^2 n_i / C takes its part along n out of g:
//     dx = r (g - mean(g) - n mean(g n))      rmsnorm: without mean(g)
//     dw(c) += sum over rows of dy n,  db(c) += sum over rows of dy
//
// Kept for backward: x, and m and r of each row: 2 numbers for C. The sums of a row are done by one
// thread and the sum over rows by one thread a column: results do not depend on the number of threads.
// Cost: 8 FLOPs a number for 8 bytes: memory-bound, like everything that is not a matmul.
// Letters: N rows (tokens), C columns (channels).
// References: Ba, Kiros and Hinton (2016), Layer Normalization; Zhang and Sennrich (2019), RMSNorm.
#pragma once

#include <cmath>

#include "yotta/nn/columns.hpp"
#include "yotta/nn/op.hpp"
#include "yotta/nn/vectors.hpp"

namespace yotta {

struct LayernormOutput {
  Tensor y;     // (N, C)
  Tensor mean;  // (N)
  Tensor rstd;  // (N), one over the standard deviation
};
struct RmsnormOutput {
  Tensor y;     // (N, C)
  Tensor rstd;  // (N), one over the root of the mean square
};

// FLOPs a number: layernorm sum 1, squares 3, output 4; rmsnorm squares 2, output 2.
constexpr OpCost layernorm_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("layernorm", dtype, 8 * N * C, N * C + 2 * C, N * C + 2 * N);
}
constexpr OpCost layernorm_backward_input_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("layernorm_backward_input", dtype, 11 * N * C, 2 * N * C + 2 * N + C, N * C);
}
constexpr OpCost layernorm_backward_weight_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("layernorm_backward_weight", dtype, 5 * N * C, 2 * N * C + 2 * N + 2 * C, 2 * C);
}
constexpr OpCost rmsnorm_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("rmsnorm", dtype, 4 * N * C, N * C + C, N * C + N);
}
constexpr OpCost rmsnorm_backward_input_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("rmsnorm_backward_input", dtype, 8 * N * C, 2 * N * C + N + C, N * C);
}
constexpr OpCost rmsnorm_backward_weight_cost(DType dtype, int64_t N, int64_t C) {
  return op_cost("rmsnorm_backward_weight", dtype, 3 * N * C, 2 * N * C + N + C, C);
}

namespace detail {

// The rows of a norm as plain pointers; mean is null for rmsnorm.
template <class Real, class RowReal = Real>
struct NormRows {
  int64_t N, C;
  const Real* x;       // (N, C)
  const Real* weight;  // (C)
  RowReal* mean;       // (N) or null
  RowReal* rstd;       // (N)
};

template <class Real>
void norm_forward(const NormRows<Real>& rows, const Real* bias, double eps, Real* y) {
  const int64_t C = rows.C;
  const Real inverse = Real{1} / static_cast<Real>(C);
  parallel_for(rows.N, rows_per_thread(C), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const Real* x = rows.x + n * C;
      const Real mean =
          rows.mean == nullptr ? Real{0} : inverse * sum_lanes<Real>(C, [&](auto c, auto count) {
                                             return load(x + c, count);
                                           });
      const Real square = inverse * sum_lanes<Real>(C, [&](int64_t c, auto count) {
                            const Vector<Real> v = load(x + c, count) - mean;
                            return v * v;
                          });
      const Real rstd = Real{1} / std::sqrt(square + static_cast<Real>(eps));
      for_lanes<Real>(C, [&](int64_t c, auto count) {
        Vector<Real> v = (load(x + c, count) - mean) * rstd * load(rows.weight + c, count);
        if (bias != nullptr) v += load(bias + c, count);
        store(y + n * C + c, v, count);
      });
      rows.rstd[n] = rstd;
      if (rows.mean != nullptr) rows.mean[n] = mean;
    }
  });
}

template <class Real>
void norm_backward_input(const NormRows<Real, const Real>& rows, const Real* dy, Real* dx) {
  const int64_t C = rows.C;
  const Real inverse = Real{1} / static_cast<Real>(C);
  parallel_for(rows.N, rows_per_thread(C), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const Real *x = rows.x + n * C, *d = dy + n * C;
      const Real rstd = rows.rstd[n], mean = rows.mean == nullptr ? Real{0} : rows.mean[n];
      Vector<Real> sum_g{}, sum_gn{};
      for_lanes<Real>(C, [&](int64_t c, auto count) {  // lanes past the end hold g = 0
        const Vector<Real> g = load(d + c, count) * load(rows.weight + c, count);
        sum_g += g;
        sum_gn += g * ((load(x + c, count) - mean) * rstd);
      });
      const Real mean_g = rows.mean == nullptr ? Real{0} : inverse * sum_of_lanes<Real>(sum_g);
      const Real mean_gn = inverse * sum_of_lanes<Real>(sum_gn);
      for_lanes<Real>(C, [&](int64_t c, auto count) {
        const Vector<Real> g = load(d + c, count) * load(rows.weight + c, count);
        const Vector<Real> normal = (load(x + c, count) - mean) * rstd;
        store(dx + n * C + c, rstd * (g - mean_g - normal * mean_gn), count);
      });
    }
  });
}

// Checks what all backwards share: dy like x, and one number a row.
inline void expect_norm(const char* operation, const Tensor& dy, const Tensor& x,
                        const Tensor& rstd, Where where) {
  expect_dims(operation, "x", x, 2, "(N, C)", where);
  expect_same(operation, "dy", dy, "x", x, where);
  expect_shape(operation, "rstd", rstd, {x.dim(0)}, where);
}

}  // namespace detail

// y = (x - mean) rstd weight + bias by rows; x (N, C), weight and bias (C), eps as in the paper 1e-5.
inline LayernormOutput layernorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 double eps = 1e-5, Where where = Where::current()) {
  expect_dims("layernorm", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm", "weight", weight, {C}, where);
  expect_shape("layernorm", "bias", bias, {C}, where);
  charge(layernorm_cost(x.dtype(), N, C));
  LayernormOutput out{empty_like(x, where), empty_beside(x, {N}, x.dtype(), where),
                      empty_beside(x, {N}, x.dtype(), where)};
  if (x.device() == Device::meta) return out;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    detail::norm_forward<Real>({N, C, x.data<Real>(where), weight.data<Real>(where),
                                out.mean.data<Real>(), out.rstd.data<Real>()},
                               bias.data<Real>(where), eps, out.y.data<Real>());
  });
  return out;
}

// dx (N, C) of layernorm.
inline Tensor layernorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Tensor& mean, const Tensor& rstd,
                                       Where where = Where::current()) {
  detail::expect_norm("layernorm_backward_input", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm_backward_input", "mean", mean, {N}, where);
  expect_shape("layernorm_backward_input", "weight", weight, {C}, where);
  charge(layernorm_backward_input_cost(x.dtype(), N, C));
  Tensor dx = empty_like(x, where);
  if (x.device() == Device::meta) return dx;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    detail::norm_backward_input<Real>({N, C, x.data<Real>(where), weight.data<Real>(where),
                                       mean.data<Real>(where), rstd.data<Real>(where)},
                                      dy.data<Real>(where), dx.data<Real>());
  });
  return dx;
}

// dweight (C) and dbias (C) of layernorm, added to what is there.
inline void layernorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                      const Tensor& rstd, Tensor& dweight, Tensor& dbias,
                                      Where where = Where::current()) {
  detail::expect_norm("layernorm_backward_weight", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm_backward_weight", "mean", mean, {N}, where);
  expect_shape("layernorm_backward_weight", "dweight", dweight, {C}, where);
  expect_shape("layernorm_backward_weight", "dbias", dbias, {C}, where);
  charge(layernorm_backward_weight_cost(x.dtype(), N, C));
  if (x.device() == Device::meta) return;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real *d = dy.data<Real>(where), *v = x.data<Real>(where);
    const Real *m = mean.data<Real>(where), *r = rstd.data<Real>(where);
    add_column_sums<Real, 2>(N, C, {dweight.data<Real>(where), dbias.data<Real>(where)},
                             [=](int64_t n, int64_t c, auto count) -> std::array<Vector<Real>, 2> {
                               const Vector<Real> dyn = load(d + n * C + c, count);
                               return {dyn * ((load(v + n * C + c, count) - m[n]) * r[n]), dyn};
                             });
  });
}

// y = x rstd weight by rows; x (N, C), weight (C).
inline RmsnormOutput rmsnorm(const Tensor& x, const Tensor& weight, double eps = 1e-5,
                             Where where = Where::current()) {
  expect_dims("rmsnorm", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm", "weight", weight, {C}, where);
  charge(rmsnorm_cost(x.dtype(), N, C));
  RmsnormOutput out{empty_like(x, where), empty_beside(x, {N}, x.dtype(), where)};
  if (x.device() == Device::meta) return out;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    detail::norm_forward<Real>(
        {N, C, x.data<Real>(where), weight.data<Real>(where), nullptr, out.rstd.data<Real>()},
        nullptr, eps, out.y.data<Real>());
  });
  return out;
}

// dx (N, C) of rmsnorm.
inline Tensor rmsnorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                     const Tensor& rstd, Where where = Where::current()) {
  detail::expect_norm("rmsnorm_backward_input", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm_backward_input", "weight", weight, {C}, where);
  charge(rmsnorm_backward_input_cost(x.dtype(), N, C));
  Tensor dx = empty_like(x, where);
  if (x.device() == Device::meta) return dx;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    detail::norm_backward_input<Real>(
        {N, C, x.data<Real>(where), weight.data<Real>(where), nullptr, rstd.data<Real>(where)},
        dy.data<Real>(where), dx.data<Real>());
  });
  return dx;
}

// dweight (C) of rmsnorm, added to what is there.
inline void rmsnorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& rstd,
                                    Tensor& dweight, Where where = Where::current()) {
  detail::expect_norm("rmsnorm_backward_weight", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm_backward_weight", "dweight", dweight, {C}, where);
  charge(rmsnorm_backward_weight_cost(x.dtype(), N, C));
  if (x.device() == Device::meta) return;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real *d = dy.data<Real>(where), *v = x.data<Real>(where), *r = rstd.data<Real>(where);
    add_column_sums<Real, 1>(
        N, C, {dweight.data<Real>(where)},
        [=](int64_t n, int64_t c, auto count) -> std::array<Vector<Real>, 1> {
          return {load(d + n * C + c, count) * (load(v + n * C + c, count) * r[n])};
        });
  });
}

}  // namespace yotta
