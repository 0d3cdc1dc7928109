#include "yotta/plan/scaling_runs.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace yotta;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// Runs of one budget on a parabola in log N whose lowest loss is at `best`.
std::vector<ScalingRun> curve(double flops, double best, double lowest) {
  std::vector<ScalingRun> runs;
  for (const double factor : {0.125, 0.25, 0.5, 1.0, 2.5, 4.0}) {
    const double N = best * factor, x = std::log(factor);
    runs.push_back({N, flops / (6 * N), flops, lowest + 0.1 * x * x});
  }
  return runs;
}

}  // namespace

TEST_CASE("a power law is found through its points, in any order") {
  const PowerLaw law{3, -0.4};
  const PowerLaw found =
      fit_power_law({1e3, 10, 1e9, 1e6}, {law(1e3), law(10), law(1e9), law(1e6)});
  CHECK(found.factor == doctest::Approx(3).scale(0));
  CHECK(found.exponent == doctest::Approx(-0.4).scale(0));
}

TEST_CASE("points without two different x, and NaN, are refused") {
  CHECK_THROWS_AS(fit_power_law({5, 5}, {1, 2}), Error);
  CHECK_THROWS_AS(fit_power_law({1, 2}, {1}), Error);
  CHECK_THROWS_AS(fit_power_law({}, {}), Error);
  CHECK_THROWS_AS(fit_power_law({1, no_number}, {1, 2}), Error);
  CHECK_THROWS_AS(fit_power_law({1, 2}, {1, no_number}), Error);
  CHECK_THROWS_AS(fit_power_law({1, -2}, {1, 2}), Error);
}

TEST_CASE("tokens are worth themselves while they are new, and little after many readings") {
  CHECK(worth_of_tokens(80, 100) == 80);
  CHECK(worth_of_tokens(100, 100) == 100);
  CHECK(worth_of_tokens(400, 100) ==
        doctest::Approx(372.6).epsilon(0.001).scale(0));  // 4 readings: nearly
  CHECK(worth_of_tokens(4000, 100) == doctest::Approx(1517.6).epsilon(0.001).scale(0));
  CHECK(worth_of_tokens(1e9, 100) == doctest::Approx(1640).scale(0));
}

TEST_CASE("runs come together by their budget, from small to large") {
  const auto budgets =
      by_budget({{1, 1, 4.1e9, 1}, {2, 1, 1e9, 1}, {3, 1, 1.1e9, 1}, {4, 1, 4e9, 1}});
  REQUIRE(budgets.size() == 2);
  CHECK(budgets[0].size() == 2);
  CHECK(budgets[1][0].parameters == 1);
  CHECK_THROWS_AS(by_budget({{1, 1, no_number, 1}}), Error);
  CHECK_THROWS_AS(by_budget({{1, 0, 1, 1}}), Error);
  CHECK_THROWS_AS(by_budget({}), Error);
}

TEST_CASE(
    "the parabola finds a best size between those that were tried, the envelope the nearest") {
  std::vector<ScalingRun> runs;
  for (const double flops : {1e18, 1e19, 1e20})
    for (ScalingRun run : curve(flops, 2 * std::pow(flops, 0.5), 3 - 0.1 * std::log10(flops))) {
      run.parameters *= 1.2, run.tokens /= 1.2;  // beside the best
      const double x = std::log(run.parameters / (2 * std::sqrt(flops)));
      run.loss = 3 - 0.1 * std::log10(flops) + 0.1 * x * x;
      runs.push_back(run);
    }
  const std::vector<Optimum> fitted = isoflop_minima(runs), best = envelope(runs);
  REQUIRE(fitted.size() == 3);
  CHECK(fitted[1].parameters == doctest::Approx(2 * std::sqrt(1e19)).epsilon(1e-6).scale(0));
  CHECK(fitted[1].tokens ==
        doctest::Approx(1e19 / 6 / fitted[1].parameters).epsilon(1e-6).scale(0));
  CHECK(fitted[1].loss == doctest::Approx(1.1).epsilon(1e-6).scale(0));
  CHECK(best[1].parameters == doctest::Approx(2.4 * std::sqrt(1e19)).scale(0));
  CHECK(parameters_line(fitted).exponent == doctest::Approx(0.5).scale(0));
  CHECK(tokens_line(fitted).exponent == doctest::Approx(0.5).scale(0));
}

TEST_CASE("a budget without a lowest loss between its sizes is refused") {
  std::vector<ScalingRun> hill = curve(1e18, 1e8, 3);
  for (ScalingRun& run : hill) run.loss = 6 - run.loss;
  CHECK_THROWS_AS(isoflop_minima(hill), Error);
  CHECK_THROWS_AS(isoflop_minima({{1, 1, 1, 1}, {2, 1, 1, 2}}), Error);
}
