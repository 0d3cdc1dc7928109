// What ./yotta bench scaling measured, as lesson 29 reads it: bench/results/scaling/.
#pragma once

#include <string>
#include <vector>

#include "yotta/plan/scaling_laws.hpp"

namespace yotta {

struct MeasuredRun {
  std::string part;  // isoflop, held_out, width, batch
  int layers = 0, width = 0;
  double weights = 0, block_weights = 0;  // that a token meets; without the output matrix
  double steps = 0, batch = 0, tokens = 0, budget = 0, flops = 0, rate = 0;
  bool mup = true;
  double target = 0, loss = 0, cpu_seconds = 0;  // loss: NaN if the run diverged
};

struct MeasuredNoise {
  double first_step = 0, steps = 0, loss = 0, signal = 0, noise = 0;
};

struct ScalingResults {
  std::string command, date, machine;
  double train_bytes = 0;
  std::vector<MeasuredRun> runs;
  std::vector<MeasuredNoise> noise;

  std::vector<MeasuredRun> part(const std::string& name) const;
  // Of a part, as a law needs them. `with_output`: N counts the output matrix, as Chinchilla's.
  std::vector<ScalingRun> scaling_runs(const std::string& name, bool with_output = true) const;
};

// Errors: the files are not there, or are no such reports.
const ScalingResults& scaling_results();

// ---- what pictures and pages take from them ----

// FLOPs of a weight and token, on average: 6 and what attention's scores add.
double flops_each(const std::vector<ScalingRun>& runs);

// Steps to the target for each batch, at the best of its learning rates.
struct BatchSteps {
  std::vector<double> batch, steps;
};
BatchSteps batch_steps(const ScalingResults& results);

// Of a width, by rule: the run of the lowest loss.
MeasuredRun best_rate(const ScalingResults& results, int width, bool mup);

}  // namespace yotta
