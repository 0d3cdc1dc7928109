// The bodies of plan/calibration.hpp.
#pragma once

#include "yotta/plan/calibration.hpp"

#include <fmt/format.h>

#include <cmath>

#include "yotta/plan/step_estimate.hpp"

namespace yotta {

namespace detail {

class Fit {
 public:
  Fit(const Cluster& cluster, const Efficiency& from, const std::vector<MeasuredStep>& measured)
      : cluster_(cluster), measured_(measured) {
    now_.efficiency = from;
    now_.bandwidths.assign(cluster.levels.size(), 1);
    for (double* each : numbers()) begun_.push_back(*each);
  }

  Calibration run() {
    now_.error_before = error();
    double least = loss();
    for (double factor = 1.3; factor > 1.0005;) {
      bool moved = false;
      for (double* each : numbers())
        for (const double by : {factor, 1 / factor}) {
          const double before = *each;
          *each = std::min(before * by, is_share(each) ? 1.0 : most_factor);
          const double here = loss();
          moved = moved || here < least;
          if (here < least)
            least = here;
          else
            *each = before;
        }
      if (!moved) factor = std::sqrt(factor);
    }
    now_.error_after = error();
    return now_;
  }

 private:
  static constexpr double most_factor = 4, price = 1e-4;

  std::vector<double*> numbers() {
    Efficiency& e = now_.efficiency;
    std::vector<double*> all = {&e.matmul, &e.attention, &e.attention_backward};
    for (double& each : now_.bandwidths) all.push_back(&each);
    return all;
  }
  bool is_share(const double* number) const {
    const Efficiency& e = now_.efficiency;
    return number == &e.matmul || number == &e.attention || number == &e.attention_backward;
  }
  // log(predicted / measured) of each step.
  std::vector<double> logs() {
    const Cluster cluster = calibrated(cluster_, now_);
    std::vector<double> all;
    for (const MeasuredStep& each : measured_) {
      DescribedStep step = each.step;
      step.efficiency = now_.efficiency;
      all.push_back(std::log(estimate_step(cluster, step, cache_).seconds / each.seconds));
    }
    return all;
  }
  double loss() {
    double sum = 0;
    for (const double each : logs()) sum += each * each;
    sum /= static_cast<double>(measured_.size());
    const std::vector<double*> all = numbers();
    for (size_t i = 0; i < all.size(); ++i)
      sum += price * std::pow(std::log(*all[i] / begun_[i]), 2);
    return sum;
  }
  double error() {
    double sum = 0;
    for (const double each : logs()) sum += std::abs(std::exp(each) - 1);
    return sum / static_cast<double>(measured_.size());
  }

  const Cluster& cluster_;
  const std::vector<MeasuredStep>& measured_;
  Calibration now_;
  std::vector<double> begun_;
  EstimateCache cache_;
};

}  // namespace detail

YOTTA_INLINE Calibration calibrate(const Cluster& cluster, const Efficiency& from,
                                   const std::vector<MeasuredStep>& measured, Where where) {
  if (measured.empty()) fail(where, "there is no measured step to calibrate with");
  for (const MeasuredStep& each : measured)
    if (!(each.seconds > 0))
      fail(where, "a measured step of {} s: each takes longer than 0 s", each.seconds);
  return detail::Fit(cluster, from, measured).run();
}

YOTTA_INLINE Cluster calibrated(const Cluster& cluster, const Calibration& calibration) {
  Cluster made = cluster;
  for (size_t i = 0; i < made.levels.size(); ++i) made.levels[i].beta /= calibration.bandwidths[i];
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
  return text + fmt::format("predictions were {:.1f}% off on average, and are {:.1f}% off now\n",
                            100 * c.error_before, 100 * c.error_after);
}

}  // namespace yotta
