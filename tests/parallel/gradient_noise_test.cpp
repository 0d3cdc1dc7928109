#include "yotta/parallel/gradient_noise.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;

namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// The mean of `batch` gradients of 20 numbers, each 0.1 and noise of deviation 0.5: |G|^2 = 0.2, S
// = 5.
std::vector<double> gradient(const Random& random, int64_t first, int64_t batch) {
  std::vector<double> mean(20);
  for (int64_t i = first; i < first + batch; ++i)
    for (size_t k = 0; k < mean.size(); ++k)
      mean[k] += (0.1 + 0.5 * random.normal(static_cast<uint64_t>(i) * 20 + k)) /
                 static_cast<double>(batch);
  return mean;
}

double squares(const std::vector<double>& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return sum;
}

}  // namespace

TEST_CASE("both estimates are unbiased: they find the mean and the variance of a known Gaussian") {
  const Random random(7, "gradients");
  GradientNoise noise(2, 8);
  constexpr int steps = 4000;
  for (int step = 0; step < steps; ++step) {
    double small = 0;
    std::vector<double> mean(20);
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<double> own = gradient(random, 8 * step + 2 * rank, 2);
      small += squares(own) / 4;
      for (size_t k = 0; k < mean.size(); ++k) mean[k] += own[k] / 4;
    }
    noise.add({small, squares(mean)});
  }
  CHECK(noise.signal() == doctest::Approx(0.2).epsilon(0.1));
  CHECK(noise.noise() == doctest::Approx(5).epsilon(0.03));
  CHECK(noise.scale() == doctest::Approx(25).epsilon(0.1));
}

TEST_CASE("ranks: each own gradient before the sum, the whole batch's after it") {
  for (const int p : {1, 2, 4}) {
    run_ranks(p, [&](Communicator& world) {
      const ParameterPtr weight = make_parameter("w", {2, 1}, true, zeros(), 0, DType::f32);
      // This rank's gradient is (rank + 1, 1), divided by all ranks as a loss is by all tokens.
      float* const grad = weight->gradient().data<float>();
      grad[0] = static_cast<float>(world.rank() + 1) / static_cast<float>(p);
      grad[1] = 1.0f / static_cast<float>(p);
      const GradientSquares squares = all_reduce_squares({weight}, world);
      double small = 0;
      for (int rank = 0; rank < p; ++rank) small += ((rank + 1.0) * (rank + 1) + 1) / p;
      const double mean = (p + 1) / 2.0;
      CHECK(squares.small == doctest::Approx(small));
      CHECK(squares.large == doctest::Approx(mean * mean + 1));
      CHECK(weight->grad.data<float>()[0] == doctest::Approx(mean));
    });
  }
}

TEST_CASE("where noise hides the signal the scale is infinite, and sizes must differ") {
  GradientNoise noise(1, 4);
  noise.add({4, 0.5});
  CHECK(std::isinf(noise.scale()));
  CHECK_THROWS_AS(GradientNoise(2, 2), Error);
  CHECK_THROWS_AS(GradientNoise(no_number, 2), Error);
  CHECK_THROWS_AS(GradientNoise(1, no_number), Error);
}

TEST_CASE("at the critical batch both steps and data are twice the least") {
  CHECK(steps_needed(32, 32) == 2);
  CHECK(data_needed(32, 32) == 2);
  CHECK(steps_needed(320, 32) == doctest::Approx(1.1));
  CHECK(data_needed(3.2, 32) == doctest::Approx(1.1));
}

TEST_CASE("the trade of steps against batch is found again, and what is none is refused") {
  const BatchTradeoff made{100, 12};
  std::vector<double> batch, steps;
  for (const double each : {1.0, 4.0, 16.0, 64.0}) {
    batch.push_back(each);
    steps.push_back(made.steps(each));
  }
  const BatchTradeoff found = fit_batch_tradeoff(batch, steps);
  CHECK(found.critical == doctest::Approx(12).epsilon(0.01));
  CHECK(found.least_steps == doctest::Approx(100).epsilon(0.01));
  steps[1] = no_number;
  CHECK_THROWS_AS(fit_batch_tradeoff(batch, steps), Error);
  CHECK_THROWS_AS(fit_batch_tradeoff({1, 2}, {2, 1}), Error);
}
