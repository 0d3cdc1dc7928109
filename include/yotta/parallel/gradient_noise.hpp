// How large a batch pays: the gradient noise scale, from norms that data-parallel training has.
//
// The gradient g of B sequences is the true gradient G and noise that falls with B:
//
//     E |g|^2 = |G|^2 + S / B      S: variance of one sequence's gradient, summed over weights
//
// Two batch sizes give two such equations. Data ranks have both: each its own gradient of b = B / p
// sequences, and after the all-reduce that of all B.
//
//     |G|^2 ~ (B |g_B|^2 - b |g_b|^2) / (B - b)      S ~ (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
//
// Both are unbiased, so they are averaged over steps before they are divided: B_noise = S / |G|^2
// is not the average of ratios. Below B_noise twice the batch needs nearly half the steps; above
// it more batch is wasted. In between, for the same loss,
//
//     steps = S_min (1 + B_crit / B)      sequences = S_min B_crit (1 + B / B_crit)
//
// and B_noise predicts B_crit. It costs two sums of squares per step and one number on the wire.
// Letters: b, B sequences of a small and of a large batch, p ranks that share it.
// Reference: McCandlish et al., "An Empirical Model of Large-Batch Training" (2018), appendix A.1.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/grad_clip.hpp"
#include "yotta/nn/parameter.hpp"

namespace yotta {

// |g|^2 of a small batch, averaged over ranks, and of all ranks' batches together.
struct GradientSquares {
  double small = 0, large = 0;
};

// Sums the gradients over the ranks of dp, whose losses were divided by all tokens of the batch,
// and says how long they were before and after.
inline GradientSquares all_reduce_squares(const std::vector<ParameterPtr>& parameters,
                                          const Communicator& dp) {
  const auto p = static_cast<double>(dp.size());
  // Each rank divided by all tokens, so its own gradient is p times as long.
  std::vector<double> own = {p * p * sum_of_squares(parameters)};
  dp.all_reduce(own);
  for (const ParameterPtr& each : parameters) dp.all_reduce(each->gradient());
  return {own[0] / p, sum_of_squares(parameters)};
}

// Averages over steps. The two batch sizes stay.
class GradientNoise {
 public:
  // Errors: not 0 < small < large.
  GradientNoise(double small_batch, double large_batch, Where where = Where::current())
      : small_(small_batch), large_(large_batch) {
    if (!(small_batch > 0 && large_batch > small_batch))
      fail(where, "the noise of gradients shows between two batch sizes: {} is not below {}",
           small_batch, large_batch);
  }

  void add(const GradientSquares& squares) {
    const double signal = (large_ * squares.large - small_ * squares.small) / (large_ - small_);
    const double noise = (squares.small - squares.large) / (1 / small_ - 1 / large_);
    ++steps_;
    signal_ += (signal - signal_) / static_cast<double>(steps_);
    noise_ += (noise - noise_) / static_cast<double>(steps_);
  }

  double signal() const { return signal_; }  // |G|^2
  double noise() const { return noise_; }    // S
  // B_noise, in what the batch sizes are counted in; infinite where noise hides the signal.
  double scale() const {
    return signal_ > 0 ? noise_ / signal_ : std::numeric_limits<double>::infinity();
  }

 private:
  double small_, large_, signal_ = 0, noise_ = 0;
  int64_t steps_ = 0;
};

// Steps and data to the same loss, in multiples of the least of each.
constexpr double steps_needed(double batch, double critical) { return 1 + critical / batch; }
constexpr double data_needed(double batch, double critical) { return 1 + batch / critical; }

struct BatchTradeoff {
  double least_steps = 0, critical = 0;
  double steps(double batch) const { return least_steps * steps_needed(batch, critical); }
};
// Through measured steps to one loss, by least squares in log steps. Errors: fewer than three
// batches; a number that is not above 0.
inline BatchTradeoff fit_batch_tradeoff(const std::vector<double>& batch,
                                        const std::vector<double>& steps,
                                        Where where = Where::current()) {
  if (batch.size() < 3 || batch.size() != steps.size())
    fail(where, "{} batches and {} numbers of steps: expected three or more of each", batch.size(),
         steps.size());
  for (size_t i = 0; i < batch.size(); ++i)
    if (!(batch[i] > 0 && steps[i] > 0))
      fail(where, "a batch of {} took {} steps: both must be above 0", batch[i], steps[i]);
  BatchTradeoff best;
  double least = std::numeric_limits<double>::infinity();
  for (double critical = batch.front() / 1000; critical < 1e4 * batch.back(); critical *= 1.01) {
    double sum = 0, squares = 0;  // of log (steps / shape): the mean is log of the least steps
    for (size_t i = 0; i < batch.size(); ++i) {
      const double log = std::log(steps[i] / steps_needed(batch[i], critical));
      sum += log, squares += log * log;
    }
    const auto n = static_cast<double>(batch.size());
    if (squares - sum * sum / n < least)
      least = squares - sum * sum / n, best = {std::exp(sum / n), critical};
  }
  return best;
}

}  // namespace yotta
