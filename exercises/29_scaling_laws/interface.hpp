// What the graded cases of exercise 29 call. adapter.cpp fills it with one solution.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "yotta/core/exercise.hpp"
#include "yotta/plan/counted_model.hpp"
#include "yotta/plan/scaling_runs.hpp"

namespace exercise {

using yotta::ScalingRun;

using Five = std::array<double, 5>;
struct Law {
  double E, A, B, alpha, beta;
};
struct Predicted {
  double value;
  Five slope;
};
struct Equations {
  double sum;
  std::array<Five, 5> squares;
  Five errors;
};
struct Descended {
  Five law;
  double sum;
};
struct Chips {
  double chips, printed_peak;
  bool sparse;
  double mfu, watts;
};
struct Needs {
  double seconds, joules;
};

struct Solution {
  ScalingRun (*counted_run)(const yotta::CountedModel&, double read, double fresh, double loss);
  Predicted (*log_loss)(const Five&, const ScalingRun&);
  Equations (*normal_equations)(const Five&, const std::vector<ScalingRun>&, double delta);
  Descended (*descend)(const Five& start, const std::vector<ScalingRun>&, double delta);
  int (*steps)(const Five& start, const std::vector<ScalingRun>&, double delta);
  Law (*fit_loss_law)(const std::vector<ScalingRun>&, double delta);
  yotta::Optimum (*optimum)(const Law&, double flops, double each);
  Needs (*run_needs)(double flops, const Chips&);
  double (*chips_to_train)(double N, double D, double seconds, double rate);
};
extern const Solution solution;

}  // namespace exercise
