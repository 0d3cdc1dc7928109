// Scaling laws: the loss of a model of N weights after D tokens, fitted to small runs.
//
//     L(N, D) = E + A / N^alpha + B / D^beta
//               │   │             └ too little data: falls with D
//               │   └ too small a model: falls with N
//               └ what no model can guess: the text's own entropy
//
// Training costs about 6 N D FLOPs. Along one budget the derivative of L is 0 at
//
//     N = G (budget / 6)^a       a = beta / (alpha + beta)       G = (alpha A / (beta B))^g
//     D = (budget / 6)^b / G     b = alpha / (alpha + beta)      g = 1 / (alpha + beta)
//
// The fit is in log L, since runs of 2 nats and of 7 are to count alike, and with Huber's loss, so
// that a few bad runs do not pull it: Gauss-Newton with Levenberg's and Marquardt's damping, from
// many starts. bootstrap() draws the runs anew, with replacement, and says how sure the fit is.
//
// What counts as N: the weights that a token is multiplied with, not a table that is only looked
// up. What counts as D: new tokens; a text that is read again counts less and less
// (scaling_runs.hpp).
//
// Letters: N weights, D tokens, L loss in nats per token; A, B, E, alpha, beta of the law.
// References: Kaplan et al. 2020, equation 1.5; Hoffmann et al. 2022 (Chinchilla), section 3.3;
// Besiroglu et al. 2024, who repeat that fit; Llama team 2024, section 3.2.1.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "yotta/core/random.hpp"
#include "yotta/plan/counted_model.hpp"
#include "yotta/plan/scaling_runs.hpp"

namespace yotta {

// A model trained on `read` tokens of a text that has `fresh`. Errors: no tokens.
inline ScalingRun counted_run(const CountedModel& model, double read, double fresh, double loss,
                              Where where = Where::current()) {
  if (!(read > 0 && fresh > 0))
    fail(where, "{} tokens read of {}: both must be above 0", read, fresh);
  ScalingRun run;
  run.loss = loss;
  run.parameters = met_weights(model);
  run.tokens = worth_of_tokens(read, fresh);
  run.flops = 6 * run.parameters * read;
  return run;
}

struct LossLaw {
  double E = 0, A = 0, B = 0, alpha = 0, beta = 0;
  double operator()(double N, double D) const {
    return E + A / std::pow(N, alpha) + B / std::pow(D, beta);
  }
};
// Hoffmann et al. 2022, equation 10: with the two digits that are printed there.
constexpr LossLaw chinchilla_law() { return {1.69, 406.4, 410.7, 0.34, 0.28}; }

// The same runs, fitted anew: Besiroglu et al. 2024, table 1.
constexpr LossLaw chinchilla_refit() { return {1.8172, 482.01, 2085.43, 0.3478, 0.3658}; }

// The pieces of the fit. E, A and B as logarithms, so that they stay positive: log E, log A, log B,
// alpha, beta.
using LogLaw = std::array<double, 5>;

namespace detail {

struct Fitted {
  LogLaw theta = {};
  double sum = std::numeric_limits<double>::infinity();
};

}  // namespace detail

// The sum to be least; and sums of slope x slope and slope x error, times the weights of the runs.
struct NormalEquations {
  double sum = 0;
  std::array<LogLaw, 5> squares = {};
  LogLaw errors = {};
};

namespace detail {

// What is known at t: its equations; the next step's damping.
struct Descent {
  LogLaw t;
  NormalEquations here;
  double damping = 1e-2;
};

}  // namespace detail

// log L of a run by the law, and its derivatives.
struct LogLoss {
  double value = 0;
  LogLaw slope = {};
};

inline void add_run(NormalEquations& all, const LogLoss& predicted, const ScalingRun& run,
                    double delta) {
  const double error = predicted.value - std::log(run.loss), size = std::abs(error);
  const double weight = size <= delta ? 1 : delta / size;
  all.sum += size <= delta ? error * error / 2 : delta * (size - delta / 2);
  for (size_t i = 0; i < 5; ++i) {
    all.errors[i] += weight * error * predicted.slope[i];
    for (size_t j = 0; j < 5; ++j)
      all.squares[i][j] += weight * predicted.slope[i] * predicted.slope[j];
  }
}
inline LogLoss log_loss(const LogLaw& t, const ScalingRun& run) {
  LogLoss result;
  const double n = std::log(run.parameters), d = std::log(run.tokens);
  const double floor = std::exp(t[0]);
  const double model = std::exp(t[1] - t[3] * n), data = std::exp(t[2] - t[4] * d);
  const double loss = floor + model + data;
  result.value = std::log(loss);
  result.slope = {floor / loss, model / loss, data / loss, -n * model / loss, -d * data / loss};
  return result;
}
inline NormalEquations normal_equations(const LogLaw& t, const std::vector<ScalingRun>& runs,
                                        double delta) {
  NormalEquations all;
  for (const ScalingRun& run : runs) add_run(all, log_loss(t, run), run, delta);
  return all;
}

namespace detail {

// Returns whether to go on: not, once a step gains less than 1e-12 of the sum.
inline bool damped_step(Descent& at, const std::vector<ScalingRun>& runs, double delta) {
  auto squares = at.here.squares;
  for (size_t k = 0; k < 5; ++k) squares[k][k] = squares[k][k] * (1 + at.damping) + 1e-15;
  const LogLaw step = solve_equations<5>(squares, at.here.errors);
  LogLaw next = at.t;
  for (size_t k = 0; k < 5; ++k) next[k] -= step[k];
  const NormalEquations there = normal_equations(next, runs, delta);
  const double gain = at.here.sum - there.sum;
  if (gain > 0) at.t = next, at.here = there;
  at.damping *= gain > 0 ? 0.3 : 4;
  return !(gain > 0 && gain < 1e-12 * at.here.sum);
}

// Downhill from a start: a step is taken if the sum falls; if not, the damping grows.
inline Fitted descend(const LogLaw& t, const std::vector<ScalingRun>& runs, double delta) {
  Descent at{t, normal_equations(t, runs, delta)};
  for (int i = 0; i < 300 && at.damping < 1e12; ++i)
    if (!damped_step(at, runs, delta)) break;
  return {at.t, at.here.sum};
}

// For given exponents the law is a sum of three terms: E, A and B by linear least squares.
inline LogLaw start_at(double alpha, double beta, const std::vector<ScalingRun>& runs) {
  std::array<std::array<double, 3>, 3> squares = {};
  std::array<double, 3> sums = {};
  for (const ScalingRun& run : runs) {
    const std::array<double, 3> term = {1 / run.loss, std::pow(run.parameters, -alpha) / run.loss,
                                        std::pow(run.tokens, -beta) / run.loss};
    for (size_t i = 0; i < 3; ++i) {
      sums[i] += term[i];
      for (size_t j = 0; j < 3; ++j) squares[i][j] += term[i] * term[j];
    }
  }
  const std::array<double, 3> x = solve_equations<3>(squares, sums);
  const auto positive = [](double v, double least) { return std::log(v > least ? v : least); };
  const ScalingRun& first = runs.front();
  return {positive(x[0], 0.05 * first.loss),
          positive(x[1], 0.05 * first.loss * std::pow(first.parameters, alpha)),
          positive(x[2], 0.05 * first.loss * std::pow(first.tokens, beta)), alpha, beta};
}

inline LossLaw law_of(const LogLaw& t) {
  return {std::exp(t[0]), std::exp(t[1]), std::exp(t[2]), t[3], t[4]};
}

}  // namespace detail

// The law through all runs. `delta`: errors in log L above it count linearly. Errors: fewer than
// six runs; a number that is not positive.
inline LossLaw fit_loss_law(const std::vector<ScalingRun>& runs, double delta = 1e-3,
                            Where where = Where::current()) {
  expect_runs(runs, 6, where);
  if (!(delta > 0)) fail(where, "delta is {}, expected a number above 0", delta);
  detail::Fitted best;
  for (const double alpha : {0.1, 0.25, 0.5, 0.8, 1.2})
    for (const double beta : {0.1, 0.25, 0.5, 0.8, 1.2}) {
      const detail::Fitted fitted =
          detail::descend(detail::start_at(alpha, beta, runs), runs, delta);
      if (fitted.sum < best.sum) best = fitted;
    }
  return detail::law_of(best.theta);
}

// Fits to `times` draws of as many runs, with replacement, each from all starts.
inline std::vector<LossLaw> bootstrap(const std::vector<ScalingRun>& runs, int times, uint64_t seed,
                                      double delta = 1e-3, Where where = Where::current()) {
  expect_runs(runs, 6, where);
  const Random random(seed, "bootstrap");
  const auto count = static_cast<uint32_t>(runs.size());
  std::vector<LossLaw> laws;
  for (int i = 0; i < times; ++i) {
    std::vector<ScalingRun> drawn;
    for (uint32_t k = 0; k < count; ++k)
      drawn.push_back(runs[random.below(static_cast<uint64_t>(i) * count + k, count)]);
    laws.push_back(fit_loss_law(drawn, delta, where));
  }
  return laws;
}

// The best N and D of a law for a budget. `each`: FLOPs of a weight and token. Errors: a
// budget, cost, exponent, A or B that is not positive.
inline Optimum optimum(const LossLaw& law, double flops, double each = 6,
                       Where where = Where::current()) {
  if (!(flops > 0 && each > 0 && law.alpha > 0 && law.beta > 0 && law.A > 0 && law.B > 0))
    fail(where,
         "no best size for {} FLOPs: the law's A {}, B {}, alpha {} and beta {} must be above 0",
         flops, law.A, law.B, law.alpha, law.beta);
  Optimum best{.flops = flops};
  const double sum = law.alpha + law.beta;
  const double G = std::pow(law.alpha * law.A / (law.beta * law.B), 1 / sum);
  best.parameters = G * std::pow(flops / each, law.beta / sum);
  best.tokens = flops / each / best.parameters;
  best.loss = law(best.parameters, best.tokens);
  return best;
}

// Kaplan's form: L = ((Nc / N)^(alpha_N / alpha_D) + Dc / D)^alpha_D. No floor, N without
// embeddings.
struct KaplanLaw {
  double Nc = 6.4e13, Dc = 1.8e13, alpha_N = 0.076, alpha_D = 0.103;
  double operator()(double N, double D) const {
    return std::pow(std::pow(Nc / N, alpha_N / alpha_D) + Dc / D, alpha_D);
  }
};
// Its lowest point along 6 N D = flops, where the derivative of the sum in brackets is 0:
// N^(1 + r) = r Nc^r flops / (6 Dc) with r = alpha_N / alpha_D.
inline Optimum optimum(const KaplanLaw& law, double flops, Where where = Where::current()) {
  if (!(flops > 0)) fail(where, "no best size for {} FLOPs: give a number above 0", flops);
  const double r = law.alpha_N / law.alpha_D;
  const double N = std::pow(r * std::pow(law.Nc, r) * flops / (6 * law.Dc), 1 / (1 + r));
  const double D = flops / 6 / N;
  return {.flops = flops, .parameters = N, .tokens = D, .loss = law(N, D)};
}

struct Fleet {
  double chips = 1;
  double printed_peak = 1;  // FLOP/s of one chip, as on its datasheet
  bool sparse = false;      // with an asterisk: for matrices of which half is 0
  double mfu = 0.4;
  double watts = 0;  // of one chip
};
struct RunNeeds {
  double seconds = 0, joules = 0;
};
// Errors: a fleet of nothing; an MFU that is not above 0 and at most 1.
inline RunNeeds run_needs(double flops, const Fleet& fleet, Where where = Where::current()) {
  if (!(flops > 0 && fleet.chips > 0 && fleet.printed_peak > 0 && fleet.watts >= 0))
    fail(where, "{} FLOPs on {} chips of {} FLOP/s and {} watts: expected numbers above 0", flops,
         fleet.chips, fleet.printed_peak, fleet.watts);
  if (!(fleet.mfu > 0 && fleet.mfu <= 1))
    fail(where, "the MFU is {}, expected a share above 0 and at most 1", fleet.mfu);
  RunNeeds needs;
  const double peak = fleet.sparse ? fleet.printed_peak / 2 : fleet.printed_peak;
  needs.seconds = flops / (fleet.chips * peak * fleet.mfu);
  needs.joules = fleet.chips * fleet.watts * needs.seconds;
  return needs;
}

// Chips that train N weights on D tokens in so many seconds, each at `rate` FLOP/s. All above 0.
inline double chips_to_train(double N, double D, double seconds, double rate) {
  return std::ceil(6 * N * D / (seconds * rate));
}

}  // namespace yotta
