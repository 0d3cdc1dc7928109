// Rotary position embedding: rotate each pair of numbers of a query or key by an angle that grows
// with its position. A score q.k then depends on the distance between two tokens only.
//
//     one head (d = 6)   [ a0 a1 a2 | b0 b1 b2 ]      pairs are (a_i, b_i), "rotate half", as in
//                                                     Hugging Face; the paper pairs neighbours
//     (a', b') = (a cos - b sin, b cos + a sin),   angle = position * theta^(-2i/d)
//
// Rotations by s and t compose: R(s)q . R(t)k = q . R(t-s)k, which is the point.
// Backward: a rotation's transpose is the rotation back, so dx is dy rotated by minus the angle.
//
// Cost: 6 FLOPs per pair for 16 bytes; T d/2 sines and cosines, shared by all sequences and heads.
// Letters: B batch, T sequence, H heads, d numbers per head (even).
// Longer texts than the model was trained on: rope_frequencies.hpp.
// Reference: Su et al. (2021), RoFormer, section 3.
#pragma once

#include <cmath>

#include "yotta/nn/cpu/body.hpp"
#include "yotta/nn/positions.hpp"
#include "yotta/nn/rope_frequencies.hpp"

namespace yotta {

constexpr OpCost rope_cost(const char* name, DType dtype, int64_t n) {
  return elementwise_cost(name, dtype, n, 3, 1, 1);
}

// x (B, T, H, d) rotated; token t of each sequence is at position positions.of(t, T).
Tensor rope(const Tensor& x, const Positions& positions = {},
            const RopeFrequencies& frequencies = {}, Where where = Where::current());

// dx from dy, both (B, T, H, d): rotated back by the same angles.
Tensor rope_backward(const Tensor& dy, const Positions& positions = {},
                     const RopeFrequencies& frequencies = {}, Where where = Where::current());

namespace detail {

// Cosine and sine of every column's position and pair, in the layout [column][cos d/2 | sin d/2];
// number i of T d/2. Of packed sequences column c is position c, and tokens say which they have.
template <class Real>
struct RopeAngles {
  int64_t T, d;
  Positions positions;
  double log_step;  // of the frequencies, from pair to pair, before they are scaled
  RopeScaling scaling;
  Real* table;
  YOTTA_HOST_DEVICE double frequency(int64_t pair) const {
    return scaling.scaled(std::exp(log_step * static_cast<double>(pair)));
  }
  YOTTA_HOST_DEVICE void set(int64_t t, int64_t pair, double frequency) const {
    const double angle = static_cast<double>(positions.of(t, T)) * frequency;
    table[t * d + pair] = static_cast<Real>(std::cos(angle));
    table[t * d + d / 2 + pair] = static_cast<Real>(std::sin(angle));
  }
  YOTTA_HOST_DEVICE void operator()(int64_t i, OneLane) const {
    set(i / (d / 2), i % (d / 2), frequency(i % (d / 2)));
  }
};

// A row of H heads is B T H long: token t is row / H % T. each: its place in the table, (B, T);
// null: t.
template <class Number, class Real = Computed<Number>>
struct RotateRow {
  int64_t T, H, d;
  const Real* table;
  const int32_t* each;
  const Number* x;
  Real direction;
  Number* y;
  template <class Team>
  YOTTA_BODY void operator()(int64_t row, Team team) const {
    const int64_t half = d / 2;
    const Real* cosine = table + (each != nullptr ? each[row / H] : row / H % T) * d;
    const Number* a = x + row * d;
    Number* to = y + row * d;
    team.each(half, [&](int64_t i, auto count) {
      const auto c = load(cosine + i, count), s = load(cosine + half + i, count) * direction;
      const auto left = load(a + i, count), right = load(a + half + i, count);
      store(to + i, left * c - right * s, count);
      store(to + half + i, right * c + left * s, count);
    });
  }
};

}  // namespace detail

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/rope.ipp"
#endif
