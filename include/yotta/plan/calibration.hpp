// Calibration: what a real cluster reaches, from the steps that were measured on it.
//
//     measured    layout, seconds        a run's log, or a table of layouts and step times
//     fitted      efficiency of matmuls and attention; a factor for each level's bandwidth
//     said        how far off the prediction was before, is after, and is for steps that had no
//                 part in the fit: each is left out in turn while the others are fitted
//
// The fit minimises the sum of log(predicted / measured)^2 + (noise / likely)^2 log(moved)^2:
// seconds are measured to 2% or so, and a number of the description is likely off by half. So a few
// steps move a number only as far as they say something of it, and numbers that no step depends on
// stay.
// No number goes above what the description says: no kernel is faster than the peak, no link than
// its rate. It moves one number after the other, by smaller and smaller factors, until no move
// helps.
// Contract: layouts that estimate_step can take. Steps may be of several models and clusters: the
// numbers are shared, the factors by level.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yotta/plan/layout_space.hpp"

namespace yotta {

struct MeasuredStep {
  DescribedStep step;  // its efficiency is not read
  double seconds = 0;
  std::optional<Cluster> cluster = {};  // none: the one that is calibrated
};

struct Calibration {
  Efficiency efficiency;
  std::vector<double> bandwidths;            // factors, by level of the cluster
  double error_before = 0, error_after = 0;  // mean of |predicted / measured - 1|
  double left_out = 0, worst_left_out = 0;   // the same of steps left out; 0: there was one step
};

// Errors: no step, or one that took no time.
Calibration calibrate(const Cluster& cluster, const Efficiency& from,
                      const std::vector<MeasuredStep>& measured, Where where = Where::current());

// The cluster with these bandwidths.
Cluster calibrated(const Cluster& cluster, const Calibration& calibration);

std::string text_of(const Cluster& cluster, const Calibration& calibration);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/calibration.ipp"
#endif
