// The graded cases of exercise 29. Runs are made by a known law, so that each answer is known.
#include <cmath>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/plan/scaling_laws.hpp"

using namespace yotta;
using exercise::Descended;
using exercise::Equations;
using exercise::expect;
using exercise::Five;
using exercise::Law;
using exercise::Needs;
using exercise::Predicted;
using exercise::solution;

namespace {

bool near(double a, double b, double share = 1e-9) {
  return std::abs(a - b) <= share * std::max(1e-12, std::abs(b));
}

// Two layers: C 32, untied, V 256. 26,624 weights in blocks, 8,192 in each of two tables.
CountedModel small() { return {2, 32, 4, 4, 8, 96, 3, 256, false}; }

// The same with the output matrix tied to the table, and with 8 experts of which a token meets 2.
CountedModel tied() { return {2, 32, 4, 4, 8, 96, 3, 256, true}; }
CountedModel mixture() { return {2, 32, 4, 4, 8, 96, 3, 256, false, 8, 2}; }

constexpr Law made{1.8, 480, 2100, 0.35, 0.37};
double loss_of(const Law& law, double N, double D) {
  return law.E + law.A / std::pow(N, law.alpha) + law.B / std::pow(D, law.beta);
}
Five logarithms(const Law& law) {
  return {std::log(law.E), std::log(law.A), std::log(law.B), law.alpha, law.beta};
}
ScalingRun run_of(double N, double D, const Law& law = made) {
  return {N, D, 6 * N * D, loss_of(law, N, D)};
}

// Models of 1e7 to 3e9 weights on 1e9 to 1e11 tokens.
std::vector<ScalingRun> runs_of(const Law& law) {
  std::vector<ScalingRun> runs;
  for (const double N : {1e7, 5e7, 2e8, 8e8, 3e9})
    for (const double D : {1e9, 5e9, 2e10, 1e11}) runs.push_back(run_of(N, D, law));
  return runs;
}
std::vector<ScalingRun> made_runs() { return runs_of(made); }

// Laws from which full steps of Gauss and Newton lead astray.
constexpr Law far_laws[] = {
    {1, 100, 100, 0.2, 0.2}, {1.5, 1000, 1000, 0.5, 0.25}, {0.2, 1e4, 1e4, 0.8, 0.8}};

// Numbers that nobody can look up here: each case ends with some.
constexpr int draws = 4;
double drawn(const std::string& name, int i, double low, double high) {
  const Random random(exercise::seed(29), name);
  return low + (high - low) * random.uniform(static_cast<uint64_t>(i));
}
Law drawn_law(int i) {
  return {drawn("E", i, 1.2, 2.2), drawn("A", i, 200, 900), drawn("B", i, 500, 3000),
          drawn("alpha", i, 0.28, 0.45), drawn("beta", i, 0.28, 0.45)};
}

// The law's values for a run, and each of its three terms over their sum.
constexpr double N0 = 1e8, D0 = 2e9;
double share(int term) {
  const double parts[] = {made.E, made.A / std::pow(N0, made.alpha),
                          made.B / std::pow(D0, made.beta)};
  return parts[term] / loss_of(made, N0, D0);
}

// Derivatives by some of a law's numbers, beside what the logarithm does when one of them grows a
// little.
void expect_slopes(size_t first, size_t last) {
  for (int i = 0; i < draws; ++i) {
    const Five law = logarithms(drawn_law(i));
    const double N = drawn("N", i, 1e7, 1e9), D = drawn("D", i, 1e9, 1e11), little = 1e-6;
    const auto moved = [&](size_t k, double by) {
      Five t = law;
      t[k] += by;
      return std::log(loss_of({std::exp(t[0]), std::exp(t[1]), std::exp(t[2]), t[3], t[4]}, N, D));
    };
    const Predicted found = solution.log_loss(law, run_of(N, D));
    for (size_t k = first; k < last; ++k) {
      const double slope = (moved(k, little) - moved(k, -little)) / (2 * little);
      expect(std::abs(found.slope[k] - slope) < 1e-6,
             fmt::format("derivative {} is {:.6f} for another law, expected {:.6f}", k,
                         found.slope[k], slope));
    }
  }
}

}  // namespace

// ---- 29.1 ----

TEST_CASE("29.1: N is what a token is multiplied with") {
  const double found = solution.counted_run(small(), 1000, 5000, 2).parameters;
  const double table = output_weights(small());
  expect(
      !near(found, all_weights(small())),
      fmt::format("N is {}: with the token table of {} weights, of which a token reads a row. It "
                  "is multiplied with {}",
                  found, table, met_weights(small())));
  expect(!near(found, met_weights(small()) - table),
         fmt::format("N is {}: without the output matrix of {} weights. A token is multiplied with "
                     "it too, and N is {}",
                     found, table, met_weights(small())));
  expect(near(found, met_weights(small())),
         fmt::format("N is {}, expected the {} weights that a token is multiplied with", found,
                     met_weights(small())));
}

TEST_CASE("29.1: N of a model whose output matrix is tied to the table, and of one with experts") {
  const double one = solution.counted_run(tied(), 1000, 5000, 2).parameters;
  expect(near(one, met_weights(tied())),
         fmt::format("N is {} for a model whose output matrix is the token table, expected {}: a "
                     "token is multiplied with that matrix, though all weights hold it only once",
                     one, met_weights(tied())));
  const double experts = solution.counted_run(mixture(), 1000, 5000, 2).parameters;
  expect(
      near(experts, met_weights(mixture())),
      fmt::format("N is {} for a model of 8 experts of which a token meets 2, expected {}: it is "
                  "not multiplied with the other 6",
                  experts, met_weights(mixture())));
  for (int i = 0; i < draws; ++i) {
    CountedModel model = i % 2 == 0 ? tied() : mixture();
    model.layers = static_cast<int64_t>(drawn("layers", i, 1, 40));
    const double found = solution.counted_run(model, 1000, 5000, 2).parameters;
    expect(near(found, met_weights(model)),
           fmt::format("N is {} for such a model of {} layers, expected {}", found, model.layers,
                       met_weights(model)));
  }
}

TEST_CASE("29.1: a token that is read again is not new") {
  const ScalingRun once = solution.counted_run(small(), 5000, 5000, 2);
  expect(near(once.tokens, 5000), fmt::format("5000 tokens read once are worth {}", once.tokens));
  const double found = solution.counted_run(small(), 50000, 5000, 2).tokens;
  expect(near(found, worth_of_tokens(50000, 5000)),
         fmt::format("a text of 5000 tokens, read 10 times, is worth {} tokens here. What is "
                     "repeated counts less: {:.0f}",
                     found, worth_of_tokens(50000, 5000)));
  for (int i = 0; i < draws; ++i) {
    const double read = drawn("read", i, 2e4, 2e5), fresh = drawn("fresh", i, 1e3, 1e4);
    const ScalingRun run = solution.counted_run(small(), read, fresh, 2);
    expect(near(run.tokens, worth_of_tokens(read, fresh)),
           fmt::format("{} tokens read of a text of {} are worth {:.0f}, not {}", read, fresh,
                       worth_of_tokens(read, fresh), run.tokens));
  }
}

TEST_CASE("29.1: FLOPs are spent on every token that is read") {
  const double found = solution.counted_run(small(), 50000, 5000, 2).flops;
  expect(near(found, 6 * met_weights(small()) * 50000),
         fmt::format("{} FLOPs for 50000 tokens read, expected 6 N for each of them: {}. A token "
                     "that is read again costs what a new one costs",
                     found, 6 * met_weights(small()) * 50000));
  for (int i = 0; i < draws; ++i) {
    const double read = drawn("read", i, 2e4, 2e5);
    const double flops = solution.counted_run(small(), read, 5000, 2).flops;
    expect(near(flops, 6 * met_weights(small()) * read),
           fmt::format("{} FLOPs for {} tokens read, expected {}", flops, read,
                       6 * met_weights(small()) * read));
  }
}

TEST_CASE("29.1: the loss is noted, and a run of no tokens is an error") {
  const double loss = solution.counted_run(small(), 1, 1, 2.5).loss;
  expect(loss == 2.5, fmt::format("a run with a loss of 2.5 has {}", loss));
  for (const auto& [read, fresh] : {std::pair{0.0, 5.0}, {5.0, 0.0}, {-1.0, 5.0}, {5.0, -1.0}})
    expect(!exercise::error_of([&] { solution.counted_run(small(), read, fresh, 2); }).empty(),
           fmt::format("{} tokens read of a text of {} are a run by your answer: it is an error",
                       read, fresh));
}

// ---- 29.2 ----

TEST_CASE("29.2: the logarithm of the law's loss") {
  const double found = solution.log_loss(logarithms(made), run_of(N0, D0)).value;
  expect(near(found, std::log(loss_of(made, N0, D0))),
         fmt::format("the law has a loss of {:.4f} here, so its logarithm is {:.4f}, not {:.4f}",
                     loss_of(made, N0, D0), std::log(loss_of(made, N0, D0)), found));
  for (int i = 0; i < draws; ++i) {
    const Law law = drawn_law(i);
    const double N = drawn("N", i, 1e7, 1e9), D = drawn("D", i, 1e9, 1e11);
    const double right = std::log(loss_of(law, N, D));
    const double value = solution.log_loss(logarithms(law), run_of(N, D)).value;
    expect(near(value, right),
           fmt::format("the logarithm of a loss of {:.4f} is {:.4f}, not {:.4f}",
                       loss_of(law, N, D), right, value));
  }
}

TEST_CASE("29.2: D is the run's tokens, also where its FLOPs paid for more readings") {
  ScalingRun run = run_of(N0, D0);
  run.flops *= 10;
  const double right = std::log(loss_of(made, N0, D0));
  const double found = solution.log_loss(logarithms(made), run).value;
  expect(near(found, right),
         fmt::format("a run of {:.2g} tokens that were read ten times: the logarithm is {:.4f}, "
                     "not {:.4f}. run.tokens is D, and run.flops / (6 N) counts what is repeated "
                     "as new",
                     D0, right, found));
}

TEST_CASE("29.2: derivatives by log E, log A and log B are shares of the loss") {
  const Predicted found = solution.log_loss(logarithms(made), run_of(N0, D0));
  const char* names[] = {"log E", "log A", "log B"};
  for (int k = 0; k < 3; ++k)
    expect(near(found.slope[k], share(k), 1e-6),
           fmt::format("the derivative by {} is {:.5g}, expected {:.5g}: what is fitted is the "
                       "logarithm, so it is its term over the sum of all three",
                       names[k], found.slope[k], share(k)));
  expect_slopes(0, 3);
}

TEST_CASE("29.2: larger exponents make the loss smaller") {
  const Predicted found = solution.log_loss(logarithms(made), run_of(N0, D0));
  const double expected[] = {-std::log(N0) * share(1), -std::log(D0) * share(2)};
  const char* names[] = {"alpha", "beta"};
  for (int k = 0; k < 2; ++k)
    expect(
        near(found.slope[3 + k], expected[k], 1e-6),
        fmt::format("the derivative by {} is {:.5g}, expected {:.5g}: N^-alpha falls by log N of "
                    "itself, so it is below 0",
                    names[k], found.slope[3 + k], expected[k]));
  expect_slopes(3, 5);
}

// ---- 29.3 ----

TEST_CASE("29.3: the error is one of logarithms") {
  // The law has twice and half of what the run had.
  ScalingRun low = run_of(N0, D0), high = low;
  low.loss /= 2, high.loss *= 2;
  const double a = solution.normal_equations(logarithms(made), {low}, 10).sum;
  const double b = solution.normal_equations(logarithms(made), {high}, 10).sum;
  expect(near(a, b), fmt::format("a loss of half and one of twice are as far off: their sums are "
                                 "{:.4g} and {:.4g}. In linear space, runs of a high loss would "
                                 "count most",
                                 a, b));
  const double expected = std::log(2.0) * std::log(2.0) / 2;
  expect(near(a, expected),
         fmt::format("within delta the sum is half the error's square: {:.4g}, not {:.4g}",
                     expected, a));
  for (int i = 0; i < draws; ++i) {
    ScalingRun run = run_of(N0, D0);
    const double factor = drawn("factor", i, 1.1, 4), error = std::log(factor);
    run.loss *= factor;
    const double sum = solution.normal_equations(logarithms(made), {run}, 10).sum;
    expect(
        near(sum, error * error / 2, 1e-6),
        fmt::format("an error of {:.4f} adds {:.5g}, not {:.5g}", error, error * error / 2, sum));
  }
}

TEST_CASE("29.3: an error keeps its sign") {
  // As far above the law as below it: what they pull with is 0 together, within delta and beyond.
  for (const double delta : {10.0, 0.01})
    for (int i = 0; i < draws; ++i) {
      const double factor = drawn("factor", i, 1.1, 4);
      ScalingRun low = run_of(N0, D0), high = low;
      low.loss /= factor, high.loss *= factor;
      const double below = solution.normal_equations(logarithms(made), {low}, delta).errors[0];
      const double above = solution.normal_equations(logarithms(made), {high}, delta).errors[0];
      expect(near(below, -above, 1e-6) && below != 0,
             fmt::format("a loss of 1 / {0:.3f} of the law's and one of {0:.3f} times it pull with "
                         "{1:.5g} and {2:.5g}: expected one above 0, and as much below. The error "
                         "in slope x error keeps its sign, and only its size is compared with "
                         "delta {3}",
                         factor, below, above, delta));
    }
}

TEST_CASE("29.3: an error above delta counts linearly") {
  ScalingRun run = run_of(N0, D0);
  run.loss *= 2;
  const double delta = 0.01, size = std::log(2.0);
  const Equations found = solution.normal_equations(logarithms(made), {run}, delta);
  expect(near(found.sum, delta * (size - delta / 2)),
         fmt::format(
             "an error of {:.3f} with delta {} adds delta (|e| - delta / 2) = {:.5f}, not {:.5f}",
             size, delta, delta * (size - delta / 2), found.sum));
  // The error may be the law's minus the run's, or the other way round.
  expect(near(std::abs(found.errors[0]), delta * share(0), 1e-6),
         fmt::format("beyond delta a run pulls with delta and no more: slope x error by log E is "
                     "{:.5g}, expected {:.5g} (or with the other sign, if your error is the run's "
                     "minus the law's). Its weight is delta / |e|",
                     found.errors[0], -delta * share(0)));
  const double square = delta / size * share(0) * share(1);
  expect(near(found.squares[0][1], square, 1e-6),
         fmt::format("slope x slope of log E and log A is {:.5g}, expected {:.5g}: the squares of "
                     "a run have its weight too, {:.4f} here",
                     found.squares[0][1], square, delta / size));
}

TEST_CASE("29.3: sums over runs, slope by slope") {
  // Two errors within delta, one run twice: everything is that of one run, twice.
  ScalingRun run = run_of(N0, D0);
  run.loss *= 1.1;
  const Equations one = solution.normal_equations(logarithms(made), {run}, 1);
  const Equations two = solution.normal_equations(logarithms(made), {run, run}, 1);
  expect(near(two.squares[0][1], 2 * share(0) * share(1), 1e-6),
         fmt::format("two equal runs add their slopes' product twice: {:.5g}, not {:.5g}",
                     2 * share(0) * share(1), two.squares[0][1]));
  expect(near(two.errors[2], 2 * one.errors[2], 1e-6) && one.errors[2] != 0,
         fmt::format("two equal runs add slope x error twice: by log B {:.5g} for one run and "
                     "{:.5g} for two",
                     one.errors[2], two.errors[2]));
  expect(near(two.sum, 2 * one.sum) && one.sum > 0,
         fmt::format("two equal runs add their Huber loss twice: the sum is {:.5g} for one run and "
                     "{:.5g} for two",
                     one.sum, two.sum));
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 5; ++j)
      expect(near(two.squares[i][j], two.squares[j][i]), "the products of slopes are symmetric");
}

// ---- 29.4 ----

TEST_CASE("29.4: from a law nearby to the law that made the runs") {
  const Descended found = solution.descend(logarithms({1.5, 300, 3000, 0.3, 0.4}), made_runs(), 1);
  expect(
      near(found.law[3], made.alpha, 0.001) && near(found.law[4], made.beta, 0.001),
      fmt::format("runs of alpha {} and beta {} were fitted with {:.4f} and {:.4f}, from a start "
                  "of 0.3 and 0.4: a step goes down the slope, and after a good one there is "
                  "less damping",
                  made.alpha, made.beta, found.law[3], found.law[4]));
  const Law law = drawn_law(0);
  const Descended other = solution.descend(logarithms({1.5, 300, 2000, 0.3, 0.4}), runs_of(law), 1);
  expect(
      near(other.law[3], law.alpha, 0.01) && near(other.law[4], law.beta, 0.01),
      fmt::format("runs of another law, of alpha {:.4f} and beta {:.4f}, were fitted with {:.4f} "
                  "and {:.4f}",
                  law.alpha, law.beta, other.law[3], other.law[4]));
}

TEST_CASE("29.4: a step is taken only if the sum falls") {
  for (const Law& far : far_laws) {
    const Five start = logarithms(far);
    const double before = solution.normal_equations(start, made_runs(), 1).sum;
    const Descended found = solution.descend(start, made_runs(), 1);
    expect(found.sum <= before,
           fmt::format("from alpha {} and beta {} the sum went from {:.4g} to {:.4g}: a step that "
                       "raises it is not taken",
                       far.alpha, far.beta, before, found.sum));
    const double after = solution.normal_equations(found.law, made_runs(), 1).sum;
    expect(near(found.sum, after, 1e-6),
           fmt::format("the sum is {:.4g} at the law that was returned, and {:.4g} was said: "
                       "`here` belongs to `t`, and is replaced with it",
                       after, found.sum));
    expect(near(found.law[3], made.alpha, 0.01) && near(found.law[4], made.beta, 0.01),
           fmt::format("from alpha {} and beta {} the fit ended at {:.4f} and {:.4f}, and the runs "
                       "have {} and {}: where a step is not taken, the next has more damping",
                       far.alpha, far.beta, found.law[3], found.law[4], made.alpha, made.beta));
  }
}

TEST_CASE("29.4: the law that made the runs is found") {
  const Law found = solution.fit_loss_law(made_runs(), 1e-3);
  expect(near(found.alpha, made.alpha, 0.01) && near(found.beta, made.beta, 0.01),
         fmt::format("runs of alpha {} and beta {} were fitted with {:.4f} and {:.4f}: a step goes "
                     "down the slope, and is taken only if the sum falls",
                     made.alpha, made.beta, found.alpha, found.beta));
  expect(near(found.E, made.E, 0.01), fmt::format("E is {:.4f}, expected {}", found.E, made.E));
  const Law law = drawn_law(1), other = solution.fit_loss_law(runs_of(law), 1e-3);
  expect(
      near(other.alpha, law.alpha, 0.01) && near(other.beta, law.beta, 0.01),
      fmt::format("runs of another law, of alpha {:.4f} and beta {:.4f}, were fitted with {:.4f} "
                  "and {:.4f}",
                  law.alpha, law.beta, other.alpha, other.beta));
}

TEST_CASE("29.4: it goes on while steps gain, and says when they do not") {
  std::vector<ScalingRun> runs = made_runs();  // no law fits them
  for (size_t i = 0; i < runs.size(); ++i) runs[i].loss *= i % 3 == 0 ? 1.05 : 0.98;
  const int steps = solution.steps(logarithms({1.5, 300, 3000, 0.3, 0.4}), runs, 1);
  expect(
      steps > 3 && steps < 60,
      fmt::format("{} steps from a law nearby until it says that it is done, expected some 20: it "
                  "is done once a step gains something, and less than 1e-12 of the sum",
                  steps));
}

TEST_CASE("29.4: one run that went wrong does not pull the fit away") {
  std::vector<ScalingRun> runs = made_runs();
  runs[7].loss *= 1.5;
  const Law found = solution.fit_loss_law(runs, 1e-3);
  expect(
      near(found.alpha, made.alpha, 0.05) && near(found.beta, made.beta, 0.05),
      fmt::format("with one loss of 20 half as high again, alpha {} and beta {} were fitted with "
                  "{:.4f} and {:.4f}",
                  made.alpha, made.beta, found.alpha, found.beta));
}

// ---- 29.5 ----

TEST_CASE("29.5: the best pair spends the budget") {
  for (const double each : {6.0, 7.0}) {
    const Optimum found = solution.optimum(made, 1e21, each);
    expect(near(each * found.parameters * found.tokens, 1e21, 1e-6),
           fmt::format("{} N D is {:.4g}, and the budget is 1e21: a weight and token cost {} FLOPs",
                       each, each * found.parameters * found.tokens, each));
  }
}

TEST_CASE("29.5: any other model of the same budget has a higher loss") {
  for (int i = -2; i < draws; ++i) {
    const Law law = i < 0 ? made : drawn_law(i);
    const double flops = i == -2 ? 1e19 : i == -1 ? 1e24 : drawn("flops", i, 1e20, 1e22);
    const Optimum found = solution.optimum(law, flops, 6);
    const double best = loss_of(law, found.parameters, found.tokens);
    for (const double factor : {0.99, 1.01}) {
      const double other = loss_of(law, found.parameters * factor, found.tokens / factor);
      expect(
          best < other,
          fmt::format("at {:.0e} FLOPs N {:.4g} has a loss of {:.8f}, and {} times as many weights "
                      "have {:.8f}: N grows with beta / (alpha + beta), and G has the slopes "
                      "alpha A and beta B",
                      flops, found.parameters, best, factor, other));
    }
    expect(near(found.loss, best), fmt::format("its loss is {:.5f}, not {:.5f}", best, found.loss));
  }
}

TEST_CASE("29.5: numbers that are not positive are errors") {
  const Law law{1, 1, 1, 0.3, 0.3};
  expect(std::isfinite(solution.optimum(law, 1, 1).parameters), "a budget of 1 FLOP is one too");
  struct Bad {
    const char* what;
    Law law;
    double flops, each;
  };
  for (const double no : {0.0, -1.0})
    for (const Bad& bad :
         {Bad{"FLOPs", law, no, 6}, Bad{"FLOPs a weight and token", law, 1e20, no},
          Bad{"A", {1, no, 1, 0.3, 0.3}, 1e20, 6}, Bad{"B", {1, 1, no, 0.3, 0.3}, 1e20, 6},
          Bad{"alpha", {1, 1, 1, no, 0.3}, 1e20, 6}, Bad{"beta", {1, 1, 1, 0.3, no}, 1e20, 6}})
      expect(!exercise::error_of([&] { solution.optimum(bad.law, bad.flops, bad.each); }).empty(),
             fmt::format("{} of {} has a best size by your answer: it is an error", bad.what, no));
}

// ---- 29.6 ----

TEST_CASE("29.6: time, from the dense peak and its share") {
  const Needs dense = solution.run_needs(4e20, {100, 1e15, false, 0.4, 700});
  expect(near(dense.seconds, 1e4),
         fmt::format("4e20 FLOPs on 100 chips of 1e15 FLOP/s at an MFU of 0.4 take 10000 s, not {}",
                     dense.seconds));
  const Needs starred = solution.run_needs(4e20, {100, 2e15, true, 0.4, 700});
  expect(near(starred.seconds, 1e4),
         fmt::format("a figure with an asterisk is twice the dense peak: 10000 s, not {}",
                     starred.seconds));
  for (int i = 0; i < draws; ++i) {
    const double flops = drawn("flops", i, 1e20, 1e22), chips = drawn("chips", i, 8, 8000),
                 mfu = drawn("mfu", i, 0.2, 0.6);
    const double right = flops / (chips * 1e15 * mfu);
    const double seconds = solution.run_needs(flops, {chips, 1e15, false, mfu, 700}).seconds;
    expect(near(seconds, right),
           fmt::format("{:.4g} FLOPs on {:.4g} chips of 1e15 FLOP/s at an MFU of {:.3f} take "
                       "{:.6g} s, not {:.6g}",
                       flops, chips, mfu, right, seconds));
  }
}

TEST_CASE("29.6: energy, of all chips") {
  const Needs found = solution.run_needs(4e20, {100, 1e15, false, 0.4, 700});
  expect(near(found.joules, 700 * 100 * 1e4),
         fmt::format("100 chips of 700 W take 7e8 J in 10000 s, not {:.4g}", found.joules));
  const Needs starred = solution.run_needs(4e20, {100, 2e15, true, 0.4, 700});
  expect(near(starred.joules, 700 * 100 * 1e4),
         fmt::format("the same chips by their figure with an asterisk take the same 7e8 J, not "
                     "{:.4g}: it is watts for all seconds",
                     starred.joules));
  for (int i = 0; i < draws; ++i) {
    const double chips = drawn("chips", i, 8, 8000), watts = drawn("watts", i, 200, 1500);
    const Needs needs = solution.run_needs(4e20, {chips, 1e15, false, 0.4, watts});
    const double right = watts * 4e20 / (1e15 * 0.4);
    expect(near(needs.joules, right),
           fmt::format("{:.4g} chips of {:.4g} W take {:.4g} J, not {:.4g}", chips, watts, right,
                       needs.joules));
  }
}

TEST_CASE("29.6: a fleet of nothing, and a share above 1, are errors") {
  const exercise::Chips one{1, 1, false, 1, 0};
  expect(near(solution.run_needs(1, one).seconds, 1),
         "1 FLOP on one chip of 1 FLOP/s at an MFU of 1 takes 1 s, and 0 watts are a number too");
  struct Bad {
    const char* what;
    double flops;
    exercise::Chips fleet;
  };
  for (const Bad& bad :
       {Bad{"0 FLOPs", 0, one}, Bad{"no chips", 1, {0, 1, false, 1, 0}},
        Bad{"a peak of 0", 1, {1, 0, false, 1, 0}}, Bad{"-1 watts", 1, {1, 1, false, 1, -1}},
        Bad{"an MFU of 0", 1, {1, 1, false, 0, 0}}, Bad{"an MFU of 1.5", 1, {1, 1, false, 1.5, 0}}})
    expect(!exercise::error_of([&] { solution.run_needs(bad.flops, bad.fleet); }).empty(),
           fmt::format("{} give a time by your answer: it is an error", bad.what));
}

TEST_CASE("29.7: chips that end exactly in time") {
  const double got = solution.chips_to_train(1e9, 1e9, 1e3, 6e12);
  expect(got == 1000,
         fmt::format("6e18 FLOPs in 1000 s at 6e12 FLOP/s a chip: 1000 chips end with the last "
                     "second, your answer is {}: one less would do",
                     got));
}

// Llama 3 405B: 15.6e12 tokens. The library says how long so many chips take, and how long one
// less.
TEST_CASE("29.7: as few chips as end in time") {
  for (const double days : {30.0, 54.0, 90.0}) {
    const double N = 405e9, D = 15.6e12, seconds = 86400 * days, rate = 989e12 * 0.4;
    const auto days_of = [&](double chips) {
      const Fleet fleet{.chips = chips, .printed_peak = 989e12, .mfu = 0.4};
      return run_needs(6 * N * D, fleet).seconds / 86400;
    };
    const double got = solution.chips_to_train(N, D, seconds, rate),
                 all = 6 * N * D / seconds / rate;
    std::string why;
    if (near(got, all)) why = ": that is no whole number";
    if (got == std::floor(all))
      why = fmt::format(": they take {:.3f} days, too long", days_of(got));
    if (near(got, all / 3, 1e-3))
      why = ": 2 N D is the forward pass, and backward takes twice that";
    if (got == std::ceil(all) + 1) why = ": one less would do";
    expect(
        got == std::ceil(all),
        fmt::format("{:g} weights, {:g} tokens, {} days at {:g} FLOP/s a chip: your answer is {} "
                    "chips, expected {}{}",
                    N, D, days, rate, got, std::ceil(all), why));
    expect(days_of(got) <= days && days_of(got - 1) > days, "one chip less is in time, too");
  }
}
