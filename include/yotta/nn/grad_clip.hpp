// Gradient clipping: one bad batch must not throw the model out of the valley it has found.
//
//     norm = sqrt(sum over every parameter of g^2)      one number for the whole model
//     if norm > limit: every g counts limit / norm times
//
// The direction stays, the length is cut. The factor goes into the optimizer's own pass (Optimizer's
// `scale`), so clipping reads the gradients once and writes nothing. Sums are taken in double, in
// pieces of a fixed size that are added in order: the same bits for any number of threads.
// A model that is split over ranks adds sum_of_squares over them before the root is taken. What several of
// them hold alike (Parameter::copies) counts once: each adds its share of it.
// Cost: 2 FLOPs and 4 bytes read a parameter. Reference: Pascanu et al. (2013), algorithm 1.
#pragma once

#include <cmath>
#include <vector>

#include "yotta/nn/parameter.hpp"

namespace yotta {

// Sum of squares of one tensor, in double.
inline double sum_of_squares(const Tensor& x) {
  const int64_t n = x.numel(), piece = 1 << 14, pieces = (n + piece - 1) / piece;
  const double flops = 2 * static_cast<double>(n);
  charge({"sum_of_squares", x.dtype(), flops, static_cast<double>(x.nbytes()), 0});
  if (x.device() == Device::meta) return 0;  // stands for a gradient that needs no clipping
  std::vector<double> sums(static_cast<size_t>(pieces));
  visit_real(x.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
    const Real* values = x.data<Real>();
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        constexpr int lanes = 16;  // independent sums, so that the loop can use wide registers
        double lane[lanes] = {};
        const int64_t last = std::min(n, (p + 1) * piece);
        int64_t i = p * piece;
        for (; i + lanes <= last; i += lanes)
          for (int k = 0; k < lanes; ++k) lane[k] += double{values[i + k]} * double{values[i + k]};
        for (int k = 0; i < last; ++i, ++k) lane[k] += double{values[i]} * double{values[i]};
        for (const double each : lane) sums[static_cast<size_t>(p)] += each;
      }
    });
  });
  double total = 0;
  for (const double each : sums) total += each;
  return total;
}

// The same over every gradient.
inline double sum_of_squares(const std::vector<ParameterPtr>& parameters) {
  double total = 0;
  for (const ParameterPtr& each : parameters)
    if (each->grad.defined()) total += sum_of_squares(each->grad) / each->copies;
  return total;
}

inline double gradient_norm(const std::vector<ParameterPtr>& parameters) {
  return std::sqrt(sum_of_squares(parameters));
}

// What every gradient is multiplied by so that their norm is at most `limit`; limit 0: no clipping.
inline double clip_scale(double norm, double limit) {
  return limit > 0 && norm > limit ? limit / norm : 1.0;
}

}  // namespace yotta
