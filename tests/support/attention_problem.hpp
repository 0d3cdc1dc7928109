// Problems for the tests of attention kernels: q, k, v and dO that bf16 can hold, what a double
// says about them, and a verdict.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "yotta/core/dtype.hpp"
#include "yotta/core/random.hpp"
#include "yotta/device/device_memory.hpp"
#include "yotta/device/flash_attention_unfused.hpp"

namespace yotta {

using Doubles = std::vector<double>;

inline Doubles normal_bf16(int64_t count, const char* name, double scale) {
  Doubles x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<double>(bfloat16(static_cast<float>(scale * Random(7, name).normal(i))));
  return x;
}

template <class T>
std::vector<T> converted(const Doubles& x) {
  std::vector<T> y;
  for (const double value : x) y.push_back(T(static_cast<float>(value)));
  return y;
}

// Attention as the formula has it, in double.
struct AttentionProblem {
  AttentionShape shape;
  Doubles q, k, v, dout;
  double largest_score = 0;
  Doubles o, L, dq, dk, dv;
  // The largest sum of the absolute values whose sum is a number of o, dq, dk, dv.
  double o_size = 0, dq_size = 0, dk_size = 0, dv_size = 0;

  // logits: how large scores are, about.
  explicit AttentionProblem(const AttentionShape& s, double logits = 1)
      : shape(s),
        q(normal_bf16(s.query_numbers(), "q", logits)),
        k(normal_bf16(s.key_numbers(), "k", 1)),
        v(normal_bf16(s.key_numbers(), "v", 1)),
        dout(normal_bf16(s.query_numbers(), "dout", 1)),
        o(q.size()),
        L(static_cast<size_t>(s.query_rows())),
        dq(q.size()),
        dk(k.size()),
        dv(k.size()),
        dk_sizes_(k.size()),
        dv_sizes_(k.size()) {
    for (int b = 0; b < s.B; ++b)
      for (int h = 0; h < s.H; ++h)
        for (int t = 0; t < s.Tq; ++t) solve_row(b, t, h);
    dk_size = largest(dk_sizes_);
    dv_size = largest(dv_sizes_);
  }

 private:
  static double largest(const Doubles& x) { return *std::max_element(x.begin(), x.end()); }

  void solve_row(int b, int t, int h) {
    const auto d = static_cast<size_t>(shape.d);
    const auto at = static_cast<size_t>(shape.query_at(b, t, h));
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const auto dot = [d](const double* x, const double* y) {
      double sum = 0;
      for (size_t i = 0; i < d; ++i) sum += x[i] * y[i];
      return sum;
    };
    const auto key = [&](int j) {
      return static_cast<size_t>(shape.key_at(b, j, h / shape.group()));
    };
    const int seen = std::min(shape.keys_of(t), shape.Tk);
    Doubles p;
    for (int j = 0; j < seen; ++j) p.push_back(scale * dot(&q[at], &k[key(j)]));
    const double m = p.empty() ? 0 : *std::max_element(p.begin(), p.end());
    double l = 0;
    for (double& each : p) {
      largest_score = std::max(largest_score, std::abs(each));
      l += each = std::exp(each - m);
    }
    L[static_cast<size_t>(shape.row_at(b, t, h))] = m + std::log(l);
    Doubles o_sizes(d), dq_sizes(d);
    for (int j = 0; j < seen; ++j) {
      const double pj = p[static_cast<size_t>(j)] /= l;
      for (size_t i = 0; i < d; ++i) {
        o[at + i] += pj * v[key(j) + i];
        o_sizes[i] += std::abs(pj * v[key(j) + i]);
      }
    }
    const double D = dot(&dout[at], &o[at]);
    for (int j = 0; j < seen; ++j) {
      const double pj = p[static_cast<size_t>(j)], dp = dot(&dout[at], &v[key(j)]);
      const double ds = scale * pj * (dp - D), ds_size = scale * pj * (std::abs(dp) + std::abs(D));
      for (size_t i = 0; i < d; ++i) {
        dv[key(j) + i] += pj * dout[at + i];
        dq[at + i] += ds * k[key(j) + i];
        dk[key(j) + i] += ds * q[at + i];
        dv_sizes_[key(j) + i] += pj * std::abs(dout[at + i]);
        dq_sizes[i] += ds_size * std::abs(k[key(j) + i]);
        dk_sizes_[key(j) + i] += ds_size * std::abs(q[at + i]);
      }
    }
    o_size = std::max(o_size, largest(o_sizes));
    dq_size = std::max(dq_size, largest(dq_sizes));
  }

  Doubles dk_sizes_, dv_sizes_;
};

// The largest difference; infinity for a NaN or another infinity than the expected one.
template <class T>
double difference(const std::vector<T>& got, const Doubles& expected) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto x = static_cast<double>(got[i]);
    if (x == expected[i]) continue;
    const double error = std::abs(x - expected[i]);
    if (!(error <= largest)) largest = std::isnan(error) ? INFINITY : error;
  }
  return largest;
}

// How far results may be off, relative to their size: `unit`, the rounding of what is multiplied,
// 2^-9 for P in bf16, and that of scores in f32.
inline double allowed(const AttentionProblem& problem, double unit) {
  return 4 * (unit + 1e-7 * problem.largest_score);
}

}  // namespace yotta
