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

#include "yotta/nn/cpu/body.hpp"

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

// y = (x - mean) rstd weight + bias by rows; x (N, C), weight and bias (C), eps as in the paper 1e-5.
YOTTA_API LayernormOutput layernorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    double eps = 1e-5, Where where = Where::current());

// dx (N, C) of layernorm.
YOTTA_API Tensor layernorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                          const Tensor& mean, const Tensor& rstd,
                                          Where where = Where::current());

// dweight (C) and dbias (C) of layernorm, added to what is there.
YOTTA_API void layernorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                         const Tensor& rstd, Tensor& dweight, Tensor& dbias,
                                         Where where = Where::current());

// y = x rstd weight by rows; x (N, C), weight (C).
YOTTA_API RmsnormOutput rmsnorm(const Tensor& x, const Tensor& weight, double eps = 1e-5,
                                Where where = Where::current());

// dx (N, C) of rmsnorm.
YOTTA_API Tensor rmsnorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                        const Tensor& rstd, Where where = Where::current());

// dweight (C) of rmsnorm, added to what is there.
YOTTA_API void rmsnorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& rstd,
                                       Tensor& dweight, Where where = Where::current());

namespace detail {

// One row of y = (x - mean) rstd w + b. rmsnorm has no mean and no bias: null.
template <class Real>
struct NormForward {
  int64_t C;
  Real eps;
  const Real *x, *weight, *bias;  // (N, C), (C), (C)
  Real *y, *mean, *rstd;          // (N, C), (N), (N)
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const Real inverse = Real{1} / static_cast<Real>(C);
    const Real* row = x + n * C;
    const Real m = mean == nullptr ? Real{0} : inverse * team.sum(C, [&](int64_t c, auto count) {
      return load(row + c, count);
    });
    const Real square = inverse * team.sum(C, [&](int64_t c, auto count) {
      const auto v = load(row + c, count) - m;
      return v * v;
    });
    const Real r = Real{1} / std::sqrt(square + eps);
    team.each(C, [&](int64_t c, auto count) {
      auto v = (load(row + c, count) - m) * r * load(weight + c, count);
      if (bias != nullptr) v += load(bias + c, count);
      store(y + n * C + c, v, count);
    });
    team.once([&] {
      rstd[n] = r;
      if (mean != nullptr) mean[n] = m;
    });
  }
};

// One row of dx = r (g - mean(g) - normal mean(g normal)), g = dy w.
template <class Real>
struct NormBackward {
  int64_t C;
  const Real *dy, *x, *weight;  // (N, C), (N, C), (C)
  const Real *mean, *rstd;      // (N); mean null for rmsnorm
  Real* dx;                     // (N, C)
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const Real inverse = Real{1} / static_cast<Real>(C);
    const Real *row = x + n * C, *d = dy + n * C;
    const Real r = rstd[n], m = mean == nullptr ? Real{0} : mean[n];
    const std::array<Real, 2> sums = team.template sums<2>(C, [&](int64_t c, auto count) {
      const auto g = load(d + c, count) * load(weight + c, count);
      return std::array{g, g * ((load(row + c, count) - m) * r)};
    });
    const Real mean_g = mean == nullptr ? Real{0} : inverse * sums[0], mean_gn = inverse * sums[1];
    team.each(C, [&](int64_t c, auto count) {
      const auto g = load(d + c, count) * load(weight + c, count);
      const auto normal = (load(row + c, count) - m) * r;
      store(dx + n * C + c, r * (g - mean_g - normal * mean_gn), count);
    });
  }
};

// At row n and column c: dy times the normalised x, for dw; and dy, for db.
template <class Real>
struct LayernormTerm {
  int64_t C;
  const Real *dy, *x, *mean, *rstd;
  template <class Count>
  YOTTA_BODY auto operator()(int64_t n, int64_t c, Count count) const {
    const auto d = load(dy + n * C + c, count);
    return std::array{d * ((load(x + n * C + c, count) - mean[n]) * rstd[n]), d};
  }
};

template <class Real>
struct RmsnormTerm {
  int64_t C;
  const Real *dy, *x, *rstd;
  template <class Count>
  YOTTA_BODY auto operator()(int64_t n, int64_t c, Count count) const {
    return std::array{load(dy + n * C + c, count) * (load(x + n * C + c, count) * rstd[n])};
  }
};

}  // namespace detail

#if YOTTA_BODIES_OF(nn)

namespace detail {

// Checks what all backwards share: dy like x, and one number a row.
inline void expect_norm(const char* operation, const Tensor& dy, const Tensor& x,
                        const Tensor& rstd, Where where) {
  expect_dims(operation, "x", x, 2, "(N, C)", where);
  expect_same(operation, "dy", dy, "x", x, where);
  expect_shape(operation, "rstd", rstd, {x.dim(0)}, where);
}

}  // namespace detail

LayernormOutput layernorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                          Where where) {
  expect_dims("layernorm", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm", "weight", weight, {C}, where);
  expect_shape("layernorm", "bias", bias, {C}, where);
  charge(layernorm_cost(x.dtype(), N, C));
  LayernormOutput out{empty_like(x, where), empty_beside(x, {N}, x.dtype(), where),
                      empty_beside(x, {N}, x.dtype(), where)};
  const Device device = x.device();
  if (device == Device::meta) return out;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::NormForward<Real> body{C,
                                         static_cast<Real>(eps),
                                         x.address<Real>(device, where),
                                         weight.address<Real>(device, where),
                                         bias.address<Real>(device, where),
                                         out.y.address<Real>(device),
                                         out.mean.address<Real>(device),
                                         out.rstd.address<Real>(device)};
    run_rows<Real>("layernorm", device, N, C, body, where);
  });
  return out;
}

Tensor layernorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd, Where where) {
  detail::expect_norm("layernorm_backward_input", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm_backward_input", "mean", mean, {N}, where);
  expect_shape("layernorm_backward_input", "weight", weight, {C}, where);
  charge(layernorm_backward_input_cost(x.dtype(), N, C));
  Tensor dx = empty_like(x, where);
  const Device device = x.device();
  if (device == Device::meta) return dx;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::NormBackward<Real> body{C,
                                          dy.address<Real>(device, where),
                                          x.address<Real>(device, where),
                                          weight.address<Real>(device, where),
                                          mean.address<Real>(device, where),
                                          rstd.address<Real>(device, where),
                                          dx.address<Real>(device)};
    run_rows<Real>("layernorm_backward_input", device, N, C, body, where);
  });
  return dx;
}

void layernorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                               const Tensor& rstd, Tensor& dweight, Tensor& dbias, Where where) {
  detail::expect_norm("layernorm_backward_weight", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("layernorm_backward_weight", "mean", mean, {N}, where);
  expect_shape("layernorm_backward_weight", "dweight", dweight, {C}, where);
  expect_shape("layernorm_backward_weight", "dbias", dbias, {C}, where);
  charge(layernorm_backward_weight_cost(x.dtype(), N, C));
  const Device device = x.device();
  if (device == Device::meta) return;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::LayernormTerm<Real> term{
        C, dy.address<Real>(device, where), x.address<Real>(device, where),
        mean.address<Real>(device, where), rstd.address<Real>(device, where)};
    const ColumnSums<Real, 2, detail::LayernormTerm<Real>> body{
        N, {dweight.address<Real>(device, where), dbias.address<Real>(device, where)}, term};
    add_column_sums("layernorm_backward_weight", device, C, body, where);
  });
}

RmsnormOutput rmsnorm(const Tensor& x, const Tensor& weight, double eps, Where where) {
  expect_dims("rmsnorm", "x", x, 2, "(N, C)", where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm", "weight", weight, {C}, where);
  charge(rmsnorm_cost(x.dtype(), N, C));
  RmsnormOutput out{empty_like(x, where), empty_beside(x, {N}, x.dtype(), where)};
  const Device device = x.device();
  if (device == Device::meta) return out;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::NormForward<Real> body{C,
                                         static_cast<Real>(eps),
                                         x.address<Real>(device, where),
                                         weight.address<Real>(device, where),
                                         nullptr,
                                         out.y.address<Real>(device),
                                         nullptr,
                                         out.rstd.address<Real>(device)};
    run_rows<Real>("rmsnorm", device, N, C, body, where);
  });
  return out;
}

Tensor rmsnorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                              const Tensor& rstd, Where where) {
  detail::expect_norm("rmsnorm_backward_input", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm_backward_input", "weight", weight, {C}, where);
  charge(rmsnorm_backward_input_cost(x.dtype(), N, C));
  Tensor dx = empty_like(x, where);
  const Device device = x.device();
  if (device == Device::meta) return dx;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::NormBackward<Real> body{C,
                                          dy.address<Real>(device, where),
                                          x.address<Real>(device, where),
                                          weight.address<Real>(device, where),
                                          nullptr,
                                          rstd.address<Real>(device, where),
                                          dx.address<Real>(device)};
    run_rows<Real>("rmsnorm_backward_input", device, N, C, body, where);
  });
  return dx;
}

void rmsnorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dweight,
                             Where where) {
  detail::expect_norm("rmsnorm_backward_weight", dy, x, rstd, where);
  const int64_t N = x.dim(0), C = x.dim(1);
  expect_shape("rmsnorm_backward_weight", "dweight", dweight, {C}, where);
  charge(rmsnorm_backward_weight_cost(x.dtype(), N, C));
  const Device device = x.device();
  if (device == Device::meta) return;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const detail::RmsnormTerm<Real> term{C, dy.address<Real>(device, where),
                                         x.address<Real>(device, where),
                                         rstd.address<Real>(device, where)};
    const ColumnSums<Real, 1, detail::RmsnormTerm<Real>> body{
        N, {dweight.address<Real>(device, where)}, term};
    add_column_sums("rmsnorm_backward_weight", device, C, body, where);
  });
}

#endif  // YOTTA_BODIES

}  // namespace yotta
