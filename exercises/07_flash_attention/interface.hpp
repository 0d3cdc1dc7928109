// What the graded cases of exercise 07 call. adapter.cpp fills it with one solution.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "course/cases/launch_attention.hpp"
#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/nn/attention.hpp"
#include "yotta/nn/cpu/tile_matmul.hpp"
#include "yotta/nn/softmax.hpp"

namespace exercise {

using Matrix = yotta::MatrixView<const double>;
using MatrixOut = yotta::MatrixView<double>;

struct Sums {
  double m = -std::numeric_limits<double>::infinity(), l = 0;
};
struct Weights {
  double first, second, log_sum_exp;
};
struct Run {
  int64_t j, n;
  bool whole;
};

// What the kernel leaves behind for one head: o (Tq, kernel_d), L (Tq).
struct Kernel {
  std::vector<float> o, L;
};
inline constexpr int kernel_d = 8;

// A causal mask of the cases' own, which counts how often it is asked for one key.
struct CountingMask {
  int64_t keys, ahead = 0;
  int64_t* asked = nullptr;

  int64_t queries() const { return yotta::flash_BQ; }
  bool operator()(int64_t t, int64_t j) const {
    if (asked != nullptr) ++*asked;
    return j <= t + ahead;
  }
  template <class Visit>
  void runs(int64_t begin, int64_t end, Visit&& visit) const {
    const int64_t seen = end + ahead < 0 ? 0 : std::min(end + ahead, keys);
    for (int64_t j = 0, n = 0; j < seen; j += n) {
      n = std::min((j / yotta::flash_BK + 1) * yotta::flash_BK, seen) - j;
      visit(j, n, j + n <= begin + ahead + 1);
    }
  }
};

// A change of scores whose value and gradient depend on the score and on both places: a soft cap of
// another size at each place, and a slope by distance.
struct CappedSlope {
  static double cap(int64_t t, int64_t j) {
    return 2 + static_cast<double>(t) / 100 + static_cast<double>(j) / 300;
  }
  double operator()(double s, int64_t t, int64_t j) const {
    return cap(t, j) * std::tanh(s) - static_cast<double>(t - j) / 10;
  }
  double backward(double ds, double s, int64_t t, int64_t j) const {
    return ds * cap(t, j) * (1 - std::tanh(s) * std::tanh(s));
  }
};

struct Solution {
  Call<void(double* scores, int64_t n, double factor, Sums& sums, double* o, int64_t d)> online_row;
  Call<Weights(double first, double second)> merge_weights;
  Call<std::vector<Run>(int64_t keys, int64_t ahead, int64_t begin, int64_t end)> runs;
  Call<void(Matrix q, Matrix k, Matrix v, MatrixOut o, double* L, int64_t first, int64_t last,
            const CountingMask& mask, bool capped)>
      forward;
  Call<void(double* scores, double* dP, int64_t t, int64_t j, int64_t n, bool whole, double factor,
            double L, double D, const CountingMask& mask, bool capped)>
      backward_row;
  // The kernel on one head: q (Tq, kernel_d), k and v (Tk, kernel_d).
  Call<Kernel(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
              int Tq, int Tk, bool causal, uint64_t seed)>
      kernel;
};
extern const Solution solution;

}  // namespace exercise
