// Calibration: what a real cluster reaches, from the steps that were measured on it.
//
//     measured    layout, seconds        a run's log, or a table of layouts and step times
//     fitted      efficiency of matmuls and attention; a factor for each level's bandwidth
//     said        how far off the prediction was before, and is after
//
// The fit minimises the sum of the squares of log(predicted / measured), plus a small penalty for
// each step away from where it began: numbers that no measured step depends on stay as they are. It
// moves one number after the other, by smaller and smaller factors, until no move helps.
// Contract: layouts that estimate_step can take; more steps than numbers are better than fewer.
#pragma once

#include <string>
#include <vector>

#include "yotta/plan/layout_space.hpp"

namespace yotta {

struct MeasuredStep {
  DescribedStep step;  // its efficiency is not read
  double seconds = 0;
};

struct Calibration {
  Efficiency efficiency;
  std::vector<double> bandwidths;            // factors, by level of the cluster
  double error_before = 0, error_after = 0;  // mean of |predicted / measured - 1|
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
