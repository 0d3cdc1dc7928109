#include "yotta/plan/scaling_laws.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace yotta;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// Runs as Hoffmann et al.'s, 6e18 to 3e21 FLOPs, with losses of a law and noise of this deviation.
std::vector<ScalingRun> made_runs(const LossLaw& law, double noise) {
  const Random random(3, "noise");
  std::vector<ScalingRun> runs;
  for (const double flops : {6e18, 1e19, 3e19, 6e19, 1e20, 3e20, 6e20, 1e21, 3e21})
    for (int i = -5; i <= 5; ++i) {
      const double N = optimum(law, flops).parameters * std::pow(1.6, i), D = flops / (6 * N);
      runs.push_back({N, D, flops, law(N, D) * std::exp(noise * random.normal(runs.size()))});
    }
  return runs;
}

double exponent_of(const LossLaw& law) { return law.beta / (law.alpha + law.beta); }

// What a fit makes least.
double sum_of(const LossLaw& law, const std::vector<ScalingRun>& runs) {
  const LogLaw logarithms = {std::log(law.E), std::log(law.A), std::log(law.B), law.alpha,
                             law.beta};
  return normal_equations(logarithms, runs, 1e-3).sum;
}

}  // namespace

TEST_CASE("a law is found again from points that it made") {
  for (const LossLaw& law : {chinchilla_law(), chinchilla_refit()}) {
    const LossLaw found = fit_loss_law(made_runs(law, 0));
    CHECK(found.E == doctest::Approx(law.E).epsilon(1e-4).scale(0));
    CHECK(found.A == doctest::Approx(law.A).epsilon(1e-3).scale(0));
    CHECK(found.B == doctest::Approx(law.B).epsilon(1e-3).scale(0));
    CHECK(found.alpha == doctest::Approx(law.alpha).epsilon(1e-4).scale(0));
    CHECK(found.beta == doctest::Approx(law.beta).epsilon(1e-4).scale(0));
  }
}

TEST_CASE(
    "published exponents are found again from points with noise, within the bootstrap's interval") {
  const LossLaw law = chinchilla_refit();
  const std::vector<ScalingRun> runs = made_runs(law, 0.002);
  const LossLaw found = fit_loss_law(runs);
  CHECK(found.alpha == doctest::Approx(law.alpha).epsilon(0.05).scale(0));
  CHECK(found.beta == doctest::Approx(law.beta).epsilon(0.05).scale(0));
  std::vector<double> exponents;
  for (const LossLaw& each : bootstrap(runs, 60, 1)) exponents.push_back(exponent_of(each));
  const Interval interval = middle(exponents, 0.95);
  CHECK(interval.low < exponent_of(law));
  CHECK(exponent_of(law) < interval.high);
  CHECK(interval.high - interval.low < 0.1);
}

// Nine runs with much noise have more than one lowest point, and the law of all runs leads some
// draws to the higher one.
TEST_CASE("a draw's fit is as low as that of the drawn runs from any start") {
  const std::vector<ScalingRun> all = made_runs(chinchilla_refit(), 0.1);
  std::vector<ScalingRun> runs;
  for (size_t i = 0; i < 9; ++i) runs.push_back(all[11 * (i / 3) + 3 * (i % 3) + 2]);
  const std::vector<LossLaw> laws = bootstrap(runs, 40, 1);
  const Random random(1, "bootstrap");
  for (uint32_t i = 0; i < 40; ++i) {
    std::vector<ScalingRun> drawn;
    for (uint32_t k = 0; k < 9; ++k) drawn.push_back(runs[random.below(uint64_t{i} * 9 + k, 9)]);
    CAPTURE(i);
    CHECK(sum_of(laws[i], drawn) <= 1.001 * sum_of(fit_loss_law(drawn), drawn) + 1e-12);
  }
}

TEST_CASE("the three ways agree on points of one law") {
  const std::vector<ScalingRun> runs = made_runs(chinchilla_refit(), 0);
  const double exponent = exponent_of(chinchilla_refit());
  CHECK(parameters_line(envelope(runs)).exponent ==
        doctest::Approx(exponent).epsilon(0.01).scale(0));
  CHECK(parameters_line(isoflop_minima(runs)).exponent ==
        doctest::Approx(exponent).epsilon(0.01).scale(0));
  CHECK(exponent_of(fit_loss_law(runs)) == doctest::Approx(exponent).epsilon(0.01).scale(0));
}

TEST_CASE("one run that went wrong pulls the fit little, and the fit by squares much") {
  std::vector<ScalingRun> runs = made_runs(chinchilla_refit(), 0.001);
  runs[40].loss *= 2;
  const double alpha = chinchilla_refit().alpha;
  CHECK(fit_loss_law(runs).alpha == doctest::Approx(alpha).epsilon(0.1).scale(0));
  CHECK(fit_loss_law(runs, 10).alpha < 0.3);
}

TEST_CASE("beyond delta a run pulls with delta and no more") {
  const LogLaw law = {0.5, 6, 7, 0.34, 0.28};
  ScalingRun run{4e8, 8e9, 1, 1};
  run.loss = 2 * std::exp(log_loss(law, run).value);
  const NormalEquations found = normal_equations(law, {run}, 0.01);
  const double slope = log_loss(law, run).slope[0];
  CHECK(found.sum == doctest::Approx(0.01 * (std::log(2.0) - 0.005)).scale(0));
  CHECK(found.errors[0] == doctest::Approx(-0.01 * slope).scale(0));
  CHECK(found.squares[0][0] == doctest::Approx(0.01 / std::log(2.0) * slope * slope).scale(0));
}

TEST_CASE("slopes of the predicted log loss are its differences") {
  const LogLaw at = {0.5, 6, 7, 0.34, 0.28};
  const ScalingRun run{4e8, 8e9, 1, 1};
  for (size_t k = 0; k < 5; ++k) {
    LogLaw up = at, down = at;
    up[k] += 1e-6, down[k] -= 1e-6;
    const double slope = (log_loss(up, run).value - log_loss(down, run).value) / 2e-6;
    CHECK(log_loss(at, run).slope[k] == doctest::Approx(slope).epsilon(1e-5).scale(0));
  }
}

TEST_CASE("what is no run, and too few runs, are refused") {
  std::vector<ScalingRun> runs = made_runs(chinchilla_law(), 0);
  CHECK_THROWS_AS(fit_loss_law({runs.begin(), runs.begin() + 5}), Error);
  CHECK_THROWS_AS(fit_loss_law(runs, no_number), Error);
  runs[3].loss = no_number;
  CHECK_THROWS_AS(fit_loss_law(runs), Error);
  runs[3].loss = 0;
  CHECK_THROWS_AS(bootstrap(runs, 2, 1), Error);
  CHECK_THROWS_AS(middle({}), Error);
  CHECK_THROWS_AS(middle({1, 2}, no_number), Error);
}

TEST_CASE("the optimum is lower than its neighbours on the same budget, and pays for all of it") {
  for (const LossLaw& law : {chinchilla_law(), chinchilla_refit()}) {
    const Optimum best = optimum(law, 5.76e23);
    CHECK(6 * best.parameters * best.tokens == doctest::Approx(5.76e23).scale(0));
    CHECK(best.loss == doctest::Approx(law(best.parameters, best.tokens)).scale(0));
    for (const double factor : {0.99, 1.01})
      CHECK(law(best.parameters * factor, best.tokens / factor) > best.loss);
  }
  CHECK_THROWS_AS(optimum(chinchilla_law(), no_number), Error);
  CHECK_THROWS_AS(optimum({1, 1, 1, -0.1, 0.3}, 1e20), Error);
}

TEST_CASE("a run counts the weights that a token meets, and tokens as far as they are new") {
  CountedModel model{2, 32, 4, 4, 8, 80, 3, 256, false};
  const ScalingRun run = counted_run(model, 4000, 1000, 2.5);
  CHECK(run.parameters == met_weights(model));
  CHECK(run.parameters < all_weights(model));
  CHECK(run.flops == 6 * met_weights(model) * 4000);
  CHECK(run.tokens == worth_of_tokens(4000, 1000));
  CHECK(run.loss == 2.5);
  CHECK_THROWS_AS(counted_run(model, no_number, 1000, 2.5), Error);
}

TEST_CASE("needs: dense peak, a share of it, all chips' watts") {
  Fleet fleet{16000, 989.4e12, false, 0.4, 700};
  const RunNeeds needs = run_needs(3.8e25, fleet);
  CHECK(needs.seconds / 86400 == doctest::Approx(69.46).epsilon(0.001).scale(0));
  CHECK(needs.joules / needs.seconds == doctest::Approx(11.2e6).scale(0));
  fleet.sparse = true, fleet.printed_peak *= 2;
  CHECK(run_needs(3.8e25, fleet).seconds == doctest::Approx(needs.seconds).scale(0));
  fleet.mfu = no_number;
  CHECK_THROWS_AS(run_needs(1, fleet), Error);
  CHECK_THROWS_AS(run_needs(no_number, Fleet{}), Error);
}

TEST_CASE("a run ends in time with so many chips, and not with one less") {
  const double chips = chips_to_train(1e9, 2e10, 86400, 4e14);
  CHECK(chips == 4);  // 1.2e20 FLOPs, of which a chip does 3.456e19 a day
  CHECK(chips_to_train(1e9, 2e10, 3e5, 4e14) == 1);
}
