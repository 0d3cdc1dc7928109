// Gradient clipping: one bad batch must not move the weights far.
//
//     norm = sqrt(sum over every parameter of g^2)      one number for the whole model
//     if norm > limit: every g is multiplied by limit / norm
//
// The direction stays, the length is limited. The factor goes into the optimizer's own pass
// (Optimizer's `scale`), so clipping reads the gradients once and writes nothing. Sums are taken in
// double, over pieces of a fixed size that are added in order: the same bits for any number of
// threads. If a model is split over ranks, sum_of_squares is added over them before the root is
// taken. A parameter that several ranks hold (Parameter::copies) counts once: each adds its share.
// Cost: 2 FLOPs and 4 bytes read per parameter. Reference: Pascanu et al. (2013), algorithm 1.
#pragma once

#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "yotta/nn/cpu/step_gate.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

// Sum of squares of one tensor, in double. 0 on meta, where nothing is clipped.
double sum_of_squares(const Tensor& x, Where where = Where::current());

// The same over every gradient.
double sum_of_squares(const std::vector<ParameterPtr>& parameters, Where where = Where::current());

// The same on Device::cuda, where the result stays: its norm goes into `now`, with the factor that
// clips and whether the step is taken (StepGate).
void gate_step(const std::vector<ParameterPtr>& parameters, StepNumbers* now,
               Where where = Where::current());

// The root of it: L2, over all parameters together.
double gradient_norm(const std::vector<ParameterPtr>& parameters);

// What every gradient is multiplied by so that their norm is at most `limit`; limit 0: no clipping.
inline double clip_scale(double norm, double limit) {
  return limit > 0 && norm > limit ? limit / norm : 1.0;
}

namespace detail {

// The sum of squares of one piece of x (n), in double.
template <class Real>
struct SquaresOfPiece {
  static constexpr int64_t piece = 1 << 14;
  int64_t n;
  const Real* x;
  double* sums;  // (pieces)
  static constexpr int64_t pieces(int64_t n) { return (n + piece - 1) / piece; }

  // On the CPU: 16 independent sums, so that the loop can use wide registers.
  void operator()(int64_t p) const {
    constexpr int lanes = 16;
    double lane[lanes] = {};
    const int64_t last = std::min(n, (p + 1) * piece);
    int64_t i = p * piece;
    for (; i + lanes <= last; i += lanes)
      for (int k = 0; k < lanes; ++k) lane[k] += double{x[i + k]} * double{x[i + k]};
    for (int k = 0; i < last; ++i, ++k) lane[k] += double{x[i]} * double{x[i]};
    sums[p] = 0;
    for (const double each : lane) sums[p] += each;
  }
  template <class Team>
  YOTTA_BODY void operator()(int64_t p, Team team) const {
    const int64_t first = p * piece, count = n - first < piece ? n - first : piece;
    const double sum = team.sum(count, [&](int64_t i, OneLane) {
      return static_cast<double>(x[first + i]) * static_cast<double>(x[first + i]);
    });
    team.once([&] { sums[p] = sum; });
  }
};

}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/grad_clip.ipp"
#endif
