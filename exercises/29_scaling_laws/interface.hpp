// What the graded cases of exercise 29 call. adapter.cpp fills it with one solution.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "course/cases/own_stack.hpp"
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
  Call<ScalingRun(const yotta::CountedModel&, double read, double fresh, double loss)> counted_run;
  Call<Predicted(const Five&, const ScalingRun&)> log_loss;
  Call<Equations(const Five&, const std::vector<ScalingRun>&, double delta)> normal_equations;
  Call<Descended(const Five& start, const std::vector<ScalingRun>&, double delta)> descend;
  Call<int(const Five& start, const std::vector<ScalingRun>&, double delta)> steps;
  Call<Law(const std::vector<ScalingRun>&, double delta)> fit_loss_law;
  Call<yotta::Optimum(const Law&, double flops, double each)> optimum;
  Call<Needs(double flops, const Chips&)> run_needs;
  Call<double(double N, double D, double seconds, double rate)> chips_to_train;
};
extern const Solution solution;

}  // namespace exercise
