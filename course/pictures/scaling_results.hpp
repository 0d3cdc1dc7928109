// What ./yotta bench scaling measured, as lesson 29 reads it: bench/results/scaling/.
#pragma once

#include <string>
#include <string_view>
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

// 16 digits that another text hardly has.
std::string hash_words(std::string_view text);
std::string hash_runs(const std::vector<ScalingRun>& runs);  // in any order

// What a law says about a run, and how sure it is.
struct Forecast {
  double budget = 0, weights = 0, tokens = 0;  // of the run; read tokens
  int layers = 0, width = 0;
  double loss = 0;
  Interval interval;                         // of 80% of 100 draws
  double best_by_line = 0, best_by_law = 0;  // N for as many FLOPs
};
Forecast forecast_of(const std::vector<ScalingRun>& runs, const ScalingRun& run);

// One report.
struct ScalingReport {
  std::string command, date, machine, commit, text;  // text: its hash
  uint64_t seed = 0;
  double train_bytes = 0;
  std::vector<MeasuredRun> runs;
  std::vector<MeasuredNoise> noise;
  Forecast forecast;          // of the part forecast
  std::string fitted;         // of a forecast: hash_runs() of the runs that were fitted
  std::string forecast_file;  // of a held-out run: hash_words() of the forecast's report

  std::vector<MeasuredRun> part(const std::string& name) const;
  // Of a part, as a law needs them. `with_output`: N counts the output matrix, as Chinchilla's.
  std::vector<ScalingRun> scaling_runs(const std::string& name, bool with_output = true) const;
};
// Errors: the file is not there, or is no such report.
ScalingReport read_scaling_report(const std::string& path);

// The three reports of bench/results/scaling: the first with the run that was held out. A forecast
// was stored before that run was made.
struct ScalingResults : ScalingReport {
  ScalingReport forecast_report, held_out_report;
};
// Errors: as above; reports of different texts or seeds.
const ScalingResults& scaling_results();

// ---- what pictures and pages take from them ----

// FLOPs of a weight and token, on average: 6 and what attention's scores add.
double flops_each(const std::vector<ScalingRun>& runs);

// Steps to the target for each batch, at the best of its learning rates, and the rates that were
// tried. A best rate at an end of those may not be the best there is.
struct BatchSteps {
  std::vector<double> batch, steps, rate;
  std::vector<Interval> tried;
};
BatchSteps batch_steps(const ScalingResults& results);

// Of a width, by rule: the run of the lowest loss.
MeasuredRun best_rate(const ScalingResults& results, int width, bool mup);

}  // namespace yotta
