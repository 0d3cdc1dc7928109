// Runs of a scaling law, and the best of each budget.
//
//     loss │\             /        FLOPs     best N     best D
//          │ \.         .'         1e10      7,000      200,000     best N = c budget^a
//          │   '-.___.-'           4e10     14,000      430,000     best D = c' budget^b
//          └────────┴──── log N    one curve for each budget        lines in log and log
//
// A budget of FLOPs buys a small model and many tokens or a large one and few. Along one budget the
// loss has a lowest point, and over the budgets those points lie on a line in log N and log FLOPs.
// Two ways to find them without a formula for the loss: envelope(), the best run of each budget,
// and isoflop_minima(), a parabola through all runs of one. The first picks a size that was tried;
// the second finds one between them.
//
// Each run needs a schedule of its own, with a warm-up that is short beside it and a learning rate
// that fits its size: a small model trained like a large one looks worse than it is, and the line
// becomes too steep (Porian et al. 2024).
//
// Letters: N weights, D tokens.
// References: Hoffmann et al. 2022 (Chinchilla), sections 3.1 and 3.2; Llama team 2024, section
// 3.2.1; Muennighoff et al. 2023, equation 5, on repeated tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

struct ScalingRun {
  double parameters = 0, tokens = 0, flops = 0, loss = 0;  // N, D, of training, nats per token
};

// What tokens are worth of which only so many are new. Each further reading adds less; all of them
// together never add more than 15.4 times the new ones.
inline double worth_of_tokens(double read, double fresh) {
  constexpr double lasting = 15.4;  // readings until one more adds 1/e of new text
  if (read <= fresh) return read;
  const double again = read / fresh - 1;
  return fresh * (1 + lasting * (1 - std::exp(-again / lasting)));
}

// y = factor x^exponent
struct PowerLaw {
  double factor = 1, exponent = 0;
  double operator()(double x) const { return factor * std::pow(x, exponent); }
};
// Through points, by least squares in log x and log y. Errors: fewer than two different x.
inline PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y,
                              Where where = Where::current()) {
  const auto n = static_cast<double>(x.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    const double a = std::log(x[i]), b = std::log(y[i]);
    sx += a, sy += b, sxx += a * a, sxy += a * b;
  }
  const double spread = n * sxx - sx * sx;
  const double exponent = (n * sxy - sx * sy) / spread;
  if (x.size() != y.size() || !std::isfinite(exponent) || !(spread > 1e-12 * n * sxx))
    fail(where, "a power law needs points with two different x, all above 0; here are {} and {}",
         x.size(), y.size());
  return {std::exp((sy - exponent * sx) / n), exponent};
}

struct Optimum {
  double flops = 0, parameters = 0, tokens = 0, loss = 0;
};

inline PowerLaw line_of(const std::vector<Optimum>& best, double Optimum::*what, Where where) {
  std::vector<double> x, y;
  for (const Optimum& each : best) x.push_back(each.flops), y.push_back(each.*what);
  return fit_power_law(x, y, where);
}
inline PowerLaw parameters_line(const std::vector<Optimum>& best, Where where = Where::current()) {
  return line_of(best, &Optimum::parameters, where);
}
inline PowerLaw tokens_line(const std::vector<Optimum>& best, Where where = Where::current()) {
  return line_of(best, &Optimum::tokens, where);
}

// Compute-optimal tokens of Llama 3, from the legend of the paper's figure 3. The text rounds it to
// 0.29 C^0.53, which is another line: 10.5e12 tokens at 3.8e25 and not 16.3e12.
constexpr PowerLaw llama3_tokens_line() { return {0.299, 0.537}; }

// What the paper prints for its budget: section 3.2.1.
constexpr Optimum llama3_printed_optimum() { return {3.8e25, 402e9, 16.55e12, 0}; }

// Throws if there are too few runs, or a number of one is not above 0.
inline void expect_runs(const std::vector<ScalingRun>& runs, size_t least, Where where) {
  for (const ScalingRun& run : runs)
    for (const double value : {run.parameters, run.tokens, run.flops, run.loss})
      if (!(value > 0 && std::isfinite(value)))
        fail(where, "a run of {} weights, {} tokens, {} FLOPs and loss {}: each must be above 0",
             run.parameters, run.tokens, run.flops, run.loss);
  if (runs.size() < least)
    fail(where, "{} runs are too few: this needs {} or more", runs.size(), least);
}

// Runs of one budget together: FLOPs within a fifth of the smallest. Budgets from small to large,
// and in each of them models.
inline std::vector<std::vector<ScalingRun>> by_budget(std::vector<ScalingRun> runs,
                                                      Where where = Where::current()) {
  expect_runs(runs, 1, where);
  std::sort(runs.begin(), runs.end(),
            [](const ScalingRun& a, const ScalingRun& b) { return a.flops < b.flops; });
  std::vector<std::vector<ScalingRun>> groups;
  for (const ScalingRun& run : runs) {
    if (groups.empty() || run.flops > 1.2 * groups.back().front().flops) groups.push_back({});
    groups.back().push_back(run);
  }
  for (std::vector<ScalingRun>& group : groups)
    std::sort(group.begin(), group.end(),
              [](const ScalingRun& a, const ScalingRun& b) { return a.parameters < b.parameters; });
  return groups;
}

// Each budget's best run.
inline std::vector<Optimum> envelope(const std::vector<ScalingRun>& runs,
                                     Where where = Where::current()) {
  std::vector<Optimum> best;
  for (const std::vector<ScalingRun>& budget : by_budget(runs, where)) {
    const ScalingRun& run =
        *std::min_element(budget.begin(), budget.end(),
                          [](const ScalingRun& a, const ScalingRun& b) { return a.loss < b.loss; });
    best.push_back({run.flops, run.parameters, run.tokens, run.loss});
  }
  return best;
}

// y = c[0] + c[1] x + c[2] x^2 through points, by least squares.
struct Parabola {
  std::array<double, 3> c = {};
  double lowest() const { return -c[1] / (2 * c[2]); }
  double operator()(double x) const { return c[0] + x * (c[1] + x * c[2]); }
};

// x with a x = b, by elimination with the largest pivot. Where a has none, x is not finite.
template <size_t n>
std::array<double, n> solve_equations(std::array<std::array<double, n>, n> a,
                                      std::array<double, n> b) {
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]), std::swap(b[k], b[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

// Through a budget's losses, over log N. Errors: fewer than three sizes; it has no lowest point.
inline Parabola isoflop_parabola(const std::vector<ScalingRun>& budget,
                                 Where where = Where::current()) {
  expect_runs(budget, 3, where);
  std::array<std::array<double, 3>, 3> squares = {};
  std::array<double, 3> sums = {};
  for (const ScalingRun& run : budget) {
    const double x = std::log(run.parameters);
    const std::array<double, 3> term = {1, x, x * x};
    for (size_t i = 0; i < 3; ++i) {
      sums[i] += term[i] * run.loss;
      for (size_t j = 0; j < 3; ++j) squares[i][j] += term[i] * term[j];
    }
  }
  const Parabola parabola{solve_equations<3>(squares, sums)};
  if (!(parabola.c[2] > 0 && std::isfinite(parabola.lowest())))
    fail(where, "the {} runs of {:.3g} FLOPs have no lowest loss between them: try more sizes",
         budget.size(), budget.front().flops);
  return parabola;
}

// Its lowest point for each budget.
inline std::vector<Optimum> isoflop_minima(const std::vector<ScalingRun>& runs,
                                           Where where = Where::current()) {
  std::vector<Optimum> best;
  for (const std::vector<ScalingRun>& budget : by_budget(runs, where)) {
    const Parabola parabola = isoflop_parabola(budget, where);
    std::vector<double> N, D;
    double flops = 0;
    for (const ScalingRun& run : budget) {
      N.push_back(run.parameters), D.push_back(run.tokens);
      flops += run.flops / static_cast<double>(budget.size());
    }
    const double parameters = std::exp(parabola.lowest());
    best.push_back(
        {flops, parameters, fit_power_law(N, D, where)(parameters), parabola(parabola.lowest())});
  }
  return best;
}

// The middle `share` of some numbers.
struct Interval {
  double low = 0, high = 0;
};
inline Interval middle(std::vector<double> values, double share = 0.8,
                       Where where = Where::current()) {
  if (values.empty() || !(share > 0 && share <= 1))
    fail(where, "the middle {} of {} numbers: expected a share above 0 and at most 1", share,
         values.size());
  std::sort(values.begin(), values.end());
  const double outside = (1 - share) / 2 * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(std::lround(outside));
  return {values[low], values[values.size() - 1 - low]};
}

}  // namespace yotta
