// The bodies of plan/calibration.hpp.
#pragma once

#include "yotta/plan/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "yotta/plan/step_estimate.hpp"

namespace yotta {

namespace detail {

// Some of the steps, and numbers that fit them.
class Fit {
 public:
  Fit(const Cluster& cluster, const Efficiency& from, std::vector<MeasuredStep> measured)
      : cluster_(cluster), measured_(std::move(measured)) {
    size_t levels = cluster.levels.size();
    for (const MeasuredStep& each : measured_)
      if (each.cluster) levels = std::max(levels, each.cluster->levels.size());
    now_.efficiency = from;
    now_.bandwidths.assign(levels, 1);
    for (double* each : numbers()) begun_.push_back(*each);
  }

  Calibration run() {
    now_.error_before = error();
    move(1.3);
    now_.error_after = error();
    return now_;
  }
  // From numbers that are nearly right.
  void run_from(const Calibration& near) {
    now_.efficiency = near.efficiency, now_.bandwidths = near.bandwidths;
    move(1.07);
  }

  // log(predicted / measured) of a step.
  double log_error(const MeasuredStep& of) {
    DescribedStep step = of.step;
    step.efficiency = now_.efficiency;
    const Cluster cluster = calibrated(of.cluster ? *of.cluster : cluster_, now_);
    return std::log(step_seconds(cluster, step, cache_) / of.seconds);
  }

 private:
  static constexpr double noise = 0.02, likely = 0.5;

  void move(double factor) {
    double least = loss();
    while (factor > 1.002) {
      bool moved = false;
      for (double* each : numbers())
        for (const double by : {factor, 1 / factor}) {
          const double before = *each;
          *each = std::min(before * by, 1.0);
          const double here = loss();
          moved = moved || here < least;
          if (here < least)
            least = here;
          else
            *each = before;
        }
      if (!moved) factor = std::sqrt(factor);
    }
  }
  std::vector<double*> numbers() {
    Efficiency& e = now_.efficiency;
    std::vector<double*> all = {&e.matmul, &e.attention, &e.attention_backward};
    for (double& each : now_.bandwidths) all.push_back(&each);
    return all;
  }
  double loss() {
    double sum = 0;
    for (const MeasuredStep& each : measured_) sum += std::pow(log_error(each), 2);
    const std::vector<double*> all = numbers();
    for (size_t i = 0; i < all.size(); ++i)
      sum += std::pow(noise / likely * std::log(*all[i] / begun_[i]), 2);
    return sum;
  }
  double error() {
    double sum = 0;
    for (const MeasuredStep& each : measured_) sum += std::abs(std::exp(log_error(each)) - 1);
    return sum / static_cast<double>(measured_.size());
  }

  const Cluster& cluster_;
  const std::vector<MeasuredStep> measured_;
  Calibration now_;
  std::vector<double> begun_;
  EstimateCache cache_;
};

// A tenth of the steps in turn, of fewer than ten each.
inline void leave_out(const Cluster& cluster, const Efficiency& from,
                      const std::vector<MeasuredStep>& measured, Calibration& found) {
  const size_t folds = std::min<size_t>(10, measured.size());
  if (folds < 2) return;
  for (size_t fold = 0; fold < folds; ++fold) {
    std::vector<MeasuredStep> others;
    for (size_t i = 0; i < measured.size(); ++i)
      if (i % folds != fold) others.push_back(measured[i]);
    Fit fit(cluster, from, std::move(others));
    fit.run_from(found);
    for (size_t i = fold; i < measured.size(); i += folds) {
      const double error = std::abs(std::exp(fit.log_error(measured[i])) - 1);
      found.left_out += error / static_cast<double>(measured.size());
      found.worst_left_out = std::max(found.worst_left_out, error);
    }
  }
}

}  // namespace detail

YOTTA_INLINE Calibration calibrate(const Cluster& cluster, const Efficiency& from,
                                   const std::vector<MeasuredStep>& measured, Where where) {
  if (measured.empty()) fail(where, "there is no measured step to calibrate with");
  for (const MeasuredStep& each : measured)
    if (!(each.seconds > 0))
      fail(where, "a measured step of {} s: each takes longer than 0 s", each.seconds);
  Calibration found = detail::Fit(cluster, from, measured).run();
  detail::leave_out(cluster, from, measured, found);
  return found;
}

YOTTA_INLINE Cluster calibrated(const Cluster& cluster, const Calibration& calibration) {
  Cluster made = cluster;
  for (size_t i = 0; i < made.levels.size() && i < calibration.bandwidths.size(); ++i)
    made.levels[i].beta /= calibration.bandwidths[i];
  return made;
}

YOTTA_INLINE std::string text_of(const Cluster& cluster, const Calibration& c) {
  std::string text = fmt::format(
      "kernels reach {:.0f}% of the peak in matmuls, {:.0f}% in attention, {:.0f}% in its "
      "backward\n",
      100 * c.efficiency.matmul, 100 * c.efficiency.attention,
      100 * c.efficiency.attention_backward);
  for (size_t i = 0; i < cluster.levels.size(); ++i)
    text += fmt::format("{}: {:.1f} GB/s per chip, {:.0f}% of what the description says\n",
                        cluster.levels[i].name, c.bandwidths[i] / cluster.levels[i].beta / 1e9,
                        100 * c.bandwidths[i]);
  text += fmt::format("predictions were {:.1f}% off on average, and are {:.1f}% off now\n",
                      100 * c.error_before, 100 * c.error_after);
  if (c.worst_left_out == 0) return text + "one step: none is left to check the fit with\n";
  return text + fmt::format(
                    "steps left out of the fit in turn: {:.1f}% off on average, {:.1f}% at worst\n",
                    100 * c.left_out, 100 * c.worst_left_out);
}

}  // namespace yotta
