// Layer normalisation and RMS normalisation: each row gets mean 0 and size 1, or only size 1.
//
//     row of x (C)                            layernorm                    rmsnorm
//     mean                                    m = mean(x)                  (none: m = 0)
//     one over the size                       r = 1 / sqrt(mean((x-m)^2) + eps)
//     normalised                              n = (x - m) r
//     output                                  y = n w + b                  y = n w
//
// Backward, with g = dy w. n depends on x directly and through m and r: dm/dx_i = 1/C takes the
// mean out of g, and dr/dx_i = -r^2 n_i / C takes its part along n out of g:
//     dx = r (g - mean(g) - n mean(g n))      rmsnorm: without mean(g)
//     dw(c) += sum over rows of dy n,  db(c) += sum over rows of dy
//
// Kept for backward: x, and m and r of each row: 2 numbers per C, f32 where x is bf16. One thread
// adds up a row, and one a column over all rows: results do not depend on how many there are.
// Cost: 8 FLOPs per number for 8 bytes: memory-bound. Letters: N rows (tokens), C columns.
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

// FLOPs per number: layernorm sum 1, squares 3, output 4; rmsnorm squares 2, output 2.
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

// y = (x - mean) rstd weight + bias by rows; x (N, C), weight and bias (C); eps 1e-5 in the paper.
// Weights are of x's type, or f32 where x is bf16.
LayernormOutput layernorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          double eps = 1e-5, Where where = Where::current());
// dx (N, C) of layernorm.
Tensor layernorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd,
                                Where where = Where::current());
// dweight (C) and dbias (C) of layernorm, added to what is there.
void layernorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                               const Tensor& rstd, Tensor& dweight, Tensor& dbias,
                               Where where = Where::current());

// y = x rstd weight by rows; x (N, C), weight (C).
RmsnormOutput rmsnorm(const Tensor& x, const Tensor& weight, double eps = 1e-5,
                      Where where = Where::current());
// dx (N, C) of rmsnorm.
Tensor rmsnorm_backward_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                              const Tensor& rstd, Where where = Where::current());
// dweight (C) of rmsnorm, added to what is there.
void rmsnorm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dweight,
                             Where where = Where::current());

namespace detail {

// One row of y = (x - mean) rstd w + b. rmsnorm has no mean and no bias: null. Weights are stored
// as x is, or in the type that is computed in.
template <class Number, class Weight = Computed<Number>>
struct NormForward {
  using Real = Computed<Number>;
  int64_t C;
  Real eps;
  const Number* x;              // (N, C)
  const Weight *weight, *bias;  // (C)
  Number* y;                    // (N, C)
  Real *mean, *rstd;            // (N)
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const Real inverse = Real{1} / static_cast<Real>(C);
    const Number* row = x + n * C;
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
template <class Number, class Weight = Computed<Number>>
struct NormBackward {
  using Real = Computed<Number>;
  int64_t C;
  const Number *dy, *x;     // (N, C)
  const Weight* weight;     // (C)
  const Real *mean, *rstd;  // (N); mean null for rmsnorm
  Number* dx;               // (N, C)
  template <class Team>
  YOTTA_BODY void operator()(int64_t n, Team team) const {
    const Real inverse = Real{1} / static_cast<Real>(C);
    const Number *row = x + n * C, *d = dy + n * C;
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

// At row n and column c: dy times the normalised x, for dw; and dy, for db, if there is one.
template <class Number, size_t Sums, class Real = Computed<Number>>
struct NormTerm {
  int64_t C;
  const Number *dy, *x;
  const Real *mean, *rstd;  // mean null for rmsnorm
  template <class Count>
  YOTTA_BODY auto operator()(int64_t n, int64_t c, Count count) const {
    const auto d = load(dy + n * C + c, count);
    const Real m = mean == nullptr ? Real{0} : mean[n];
    const auto dw = d * ((load(x + n * C + c, count) - m) * rstd[n]);
    if constexpr (Sums == 2)
      return std::array{dw, d};
    else
      return std::array{dw};
  }
};

}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/norm.ipp"
#endif
