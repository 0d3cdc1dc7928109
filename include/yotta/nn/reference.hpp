// Reference: a transformer's main backward passes as plain loops in f64, one letter per index.
//
// The ops of nn/ compute the same with vectors, tiles, threads and kernels. This page is to be read
// before them, and its tests compare them with it.
//
//     function                 reads                               writes
//     linear                   x (N, I), w (O, I), b (O)           y (N, O)
//     linear_backward_input    dy (N, O), w                        dx (N, I)
//     linear_backward_weight   dy, x                               adds to dw (O, I) and db (O)
//     rmsnorm                  x (N, C), w (C), eps                y (N, C), r (N)
//     rmsnorm_backward         dy (N, C), x, w, r                  dx (N, C), adds to dw (C)
//     cross_entropy            z (N, V), targets (N), scale        dz (N, V); returns the loss
//     attention                q, k, v (T, d), keys in a block     o (T, d), L (T)
//     attention_backward       dout (T, d), q, k, v, o, L          adds to dq, dk, dv (T, d)
//
// As everywhere here: dx of an activation is overwritten; the gradient of a weight is added to what
// is there. attention_backward adds too, since grouped queries share keys and values.
// Contract: sizes agree, which is not checked; results overlap nothing. Cost: the FLOPs of the ops,
// on one thread.
// Letters: N tokens, I inputs, O outputs, C width, V vocabulary, z logits, T tokens of a sequence,
// d numbers per head, r one over the root of a row's mean square, L log of a row's sum of e^score;
// an index is the small letter of its size (t and j: query and key; c: one of C or of d).
// Derivations: lesson 12.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "yotta/core/matrix_view.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

namespace reference {

using Matrix = MatrixView<const double>;  // is read: a(i, j)
using MatrixOut = MatrixView<double>;     // is written
using Array = std::span<const double>;    // a[i]
using ArrayOut = std::span<double>;
using Targets = std::span<const int64_t>;  // the token that really came next, for each row
// The sum over c of a(i, c) b(j, c).
inline double dot(Matrix a, int64_t i, Matrix b, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < a.cols; ++c) sum += a(i, c) * b(j, c);
  return sum;
}

// y(n, o) = sum over i of x(n, i) w(o, i), plus b[o].
inline void linear(Matrix x, Matrix w, Array b, MatrixOut y) {
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t o = 0; o < y.cols; ++o) y(n, o) = dot(x, n, w, o) + b[o];
}

// dx (N, I) of dy (N, O): overwritten.
inline void linear_backward_input(Matrix dy, Matrix w, MatrixOut dx) {
  for (int64_t n = 0; n < dx.rows; ++n)
    for (int64_t i = 0; i < dx.cols; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < dy.cols; ++o) sum += dy(n, o) * w(o, i);
      dx(n, i) = sum;
    }
}

// dw (O, I) and db (O) of dy (N, O): added to what is there.
inline void linear_backward_weight(Matrix dy, Matrix x, MatrixOut dw, ArrayOut db) {
  for (int64_t n = 0; n < dy.rows; ++n)
    for (int64_t o = 0; o < dy.cols; ++o) {
      db[o] += dy(n, o);
      for (int64_t i = 0; i < x.cols; ++i) dw(o, i) += dy(n, o) * x(n, i);
    }
}

// FLOPs of the three matmuls of a step: forward, dx and dw, without biases.
inline int64_t linear_step_flops(int64_t N, int64_t I, int64_t O) { return 3 * 2 * N * I * O; }

// y(n, c) = x(n, c) r[n] w[c], where 1 / r[n]^2 is the mean square of row n, plus eps.
inline void rmsnorm(Matrix x, Array w, double eps, MatrixOut y, ArrayOut r) {
  for (int64_t n = 0; n < x.rows; ++n) {
    const double mean_square = dot(x, n, x, n) / static_cast<double>(x.cols);
    const double one_over_root = 1 / std::sqrt(mean_square + eps);
    for (int64_t c = 0; c < x.cols; ++c) y(n, c) = x(n, c) * one_over_root * w[c];
    r[n] = one_over_root;
  }
}

// dx (N, C): overwritten; dw (C): added to what is there. r (N) is what rmsnorm gave.
inline void rmsnorm_backward(Matrix dy, Matrix x, Array w, Array r, MatrixOut dx, ArrayOut dw) {
  const auto C = static_cast<double>(x.cols);
  for (int64_t n = 0; n < x.rows; ++n) {
    const double scale = r[n];
    double mean = 0;  // of g times the normalised x, over the row; g = dy w
    for (int64_t c = 0; c < x.cols; ++c) mean += dy(n, c) * w[c] * x(n, c) * scale / C;
    for (int64_t c = 0; c < x.cols; ++c) {
      const double normal = x(n, c) * scale;
      dx(n, c) = scale * (dy(n, c) * w[c] - normal * mean);
      dw[c] += dy(n, c) * normal;
    }
  }
}

// The loss of logits z (N, V): the sum over rows of scale times -log softmax(z(n))[targets[n]].
// dz (N, V), its gradient, in the same pass: overwritten.
inline double cross_entropy(Matrix z, Targets targets, double scale, MatrixOut dz) {
  double loss = 0;
  for (int64_t n = 0; n < z.rows; ++n) {
    double m = z(n, 0), sum = 0;  // the largest logit; the sum of e^(z - m)
    for (int64_t v = 0; v < z.cols; ++v) m = std::max(m, z(n, v));
    for (int64_t v = 0; v < z.cols; ++v) sum += std::exp(z(n, v) - m);
    loss += scale * (m + std::log(sum) - z(n, targets[n]));
    for (int64_t v = 0; v < z.cols; ++v) {
      const double target = v == targets[n] ? 1 : 0;
      dz(n, v) = scale * (std::exp(z(n, v) - m) / sum - target);
    }
  }
  return loss;
}

// Keys from `first` on, whose scores with query t are s, are added to what t has seen: m is the
// largest score, l the sum of e^(s - m), o(t) the sum of e^(s - m) v.
inline void add_keys(const std::vector<double>& s, Matrix v, int64_t t, int64_t first, double& m,
                     double& l, MatrixOut o) {
  const double m_new = std::max(m, *std::max_element(s.begin(), s.end()));
  const double kept = std::exp(m - m_new);
  l *= kept;
  for (int64_t c = 0; c < o.cols; ++c) o(t, c) *= kept;
  for (size_t j = 0; j < s.size(); ++j) {
    const double e = std::exp(s[j] - m_new);
    l += e;
    for (int64_t c = 0; c < o.cols; ++c) o(t, c) += e * v(first + static_cast<int64_t>(j), c);
  }
  m = m_new;
}

// 1 / sqrt(d).
inline double score_scale(Matrix q) { return 1 / std::sqrt(static_cast<double>(q.cols)); }

// The scores of query t with keys [first, end).
inline std::vector<double> scores(Matrix q, Matrix k, int64_t t, int64_t first, int64_t end) {
  std::vector<double> s;
  for (int64_t j = first; j < end; ++j) s.push_back(score_scale(q) * dot(q, t, k, j));
  return s;
}

// One head of causal attention: query t looks at keys 0 to t, `block` of them at a time, and never
// holds more scores than that. o(t) = the sum of P(t, j) v(j); L[t] = log of the sum of e^S(t, j).
inline void attention(Matrix q, Matrix k, Matrix v, int64_t block, MatrixOut o, ArrayOut L) {
  for (int64_t t = 0; t < q.rows; ++t) {
    double m = -std::numeric_limits<double>::infinity(), l = 0;
    for (int64_t c = 0; c < o.cols; ++c) o(t, c) = 0;
    for (int64_t first = 0; first <= t; first += block) {
      const int64_t end = std::min(first + block, t + 1);
      add_keys(scores(q, k, t, first, end), v, t, first, m, l, o);
    }
    for (int64_t c = 0; c < o.cols; ++c) o(t, c) /= l;
    L[t] = m + std::log(l);
  }
}

// dq, dk, dv (T, d) of dout (T, d): added to what is there. o and L are what attention gave.
inline void attention_backward(Matrix dout, Matrix q, Matrix k, Matrix v, Matrix o, Array L,
                               MatrixOut dq, MatrixOut dk, MatrixOut dv) {
  const double scale = score_scale(q);
  for (int64_t t = 0; t < q.rows; ++t) {
    const double D = dot(dout, t, o, t);
    for (int64_t j = 0; j <= t; ++j) {
      const double p = std::exp(scale * dot(q, t, k, j) - L[t]);
      const double ds = p * (dot(dout, t, v, j) - D);
      for (int64_t c = 0; c < q.cols; ++c) {
        dv(j, c) += p * dout(t, c);
        dq(t, c) += scale * ds * k(j, c);
        dk(j, c) += scale * ds * q(t, c);
      }
    }
  }
}

// ---- linear -------------------------------------------------------------------------------------

// ---- rmsnorm ------------------------------------------------------------------------------------

// ---- cross-entropy ------------------------------------------------------------------------------

// ---- attention ----------------------------------------------------------------------------------

}  // namespace reference

}  // namespace yotta
