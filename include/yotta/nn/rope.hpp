// Rotary position embedding: turn each pair of numbers of a query or key by an angle that grows with
// its position. A score q.k then depends on how far apart two tokens are, not on where they stand.
//
//     one head (d = 6)   [ a0 a1 a2 | b0 b1 b2 ]      pairs are (a_i, b_i), "rotate half", as in
//                                                     Hugging Face; the paper pairs neighbours
//     (a', b') = (a cos - b sin, b cos + a sin),   angle = position * theta^(-2i/d)
//
// Rotations by s and t compose: R(s)q . R(t)k = q . R(t-s)k, which is the point.
// Backward: a rotation's transpose is the rotation back, so dx is dy turned by minus the angle.
//
// Cost: 6 FLOPs a pair for 16 bytes; T d/2 sines and cosines, shared by all sequences and heads.
// Letters: B batch, T sequence, H heads, d numbers a head (even).
// Reference: Su et al. (2021), RoFormer, section 3.
#pragma once

#include <cmath>

#include "yotta/nn/op.hpp"
#include "yotta/nn/positions.hpp"
#include "yotta/nn/vectors.hpp"

namespace yotta {

constexpr OpCost rope_cost(const char* name, DType dtype, int64_t n) {
  return elementwise_cost(name, dtype, n, 3, 1, 1);
}

namespace detail {

// cosines and sines of every position and pair, in the layout [position][cos d/2 | sin d/2].
template <class Real>
std::vector<Real> rope_table(int64_t T, int64_t d, const Positions& positions, double theta) {
  std::vector<Real> table(static_cast<size_t>(T * d));
  const double log_step = -2.0 / static_cast<double>(d) * std::log(theta);
  parallel_for(T, rows_per_thread(32 * d), [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < d / 2; ++i) {
      const double frequency = std::exp(log_step * static_cast<double>(i));
      for (int64_t t = begin; t < end; ++t) {
        const double angle = static_cast<double>(positions.of(t, T)) * frequency;
        table[static_cast<size_t>(t * d + i)] = static_cast<Real>(std::cos(angle));
        table[static_cast<size_t>(t * d + d / 2 + i)] = static_cast<Real>(std::sin(angle));
      }
    }
  });
  return table;
}

// y = x turned by `direction` (1 or -1) times the angles.
inline Tensor rotate(const char* operation, const Tensor& x, const Positions& positions,
                     double theta, double direction, Where where) {
  expect_dims(operation, "x", x, 4, "(B, T, H, d)", where);
  const int64_t B = x.dim(0), T = x.dim(1), H = x.dim(2), d = x.dim(3), half = d / 2;
  if (d % 2 != 0) fail(where, "{}: x is {}; the last size must be even", operation, x.describe());
  charge(rope_cost(operation, x.dtype(), x.numel()));
  Tensor y = empty_like(x, where);
  if (x.device() == Device::meta) return y;
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const std::vector<Real> table = rope_table<Real>(T, d, positions, theta);
    const Real* from = x.data<Real>(where);
    Real* to = y.data<Real>();
    const Real sign = static_cast<Real>(direction);
    parallel_for(B * T * H, rows_per_thread(d), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const Real *cosine = table.data() + row / H % T * d, *a = from + row * d;
        for_lanes<Real>(half, [&](int64_t i, auto count) {
          const Vector<Real> c = load(cosine + i, count);
          const Vector<Real> s = load(cosine + half + i, count) * sign;
          const Vector<Real> left = load(a + i, count), right = load(a + half + i, count);
          store(to + row * d + i, left * c - right * s, count);
          store(to + row * d + half + i, right * c + left * s, count);
        });
      }
    });
  });
  return y;
}

}  // namespace detail

// x (B, T, H, d) turned; token t of each sequence stands at positions.of(t, T).
inline Tensor rope(const Tensor& x, const Positions& positions = {}, double theta = 10000.0,
                   Where where = Where::current()) {
  return detail::rotate("rope", x, positions, theta, 1, where);
}
inline Tensor rope_backward(const Tensor& dy, const Positions& positions = {},
                            double theta = 10000.0, Where where = Where::current()) {
  return detail::rotate("rope_backward", dy, positions, theta, -1, where);
}

}  // namespace yotta
