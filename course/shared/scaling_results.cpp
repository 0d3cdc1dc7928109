#include "course/shared/scaling_results.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "yotta/core/system/files.hpp"

namespace yotta {

namespace {

using Json = nlohmann::json;

MeasuredRun run_of(const Json& row) {
  MeasuredRun run;
  run.part = row.at("part");
  run.layers = row.at("layers"), run.width = row.at("width");
  run.weights = row.at("weights"), run.block_weights = row.at("block_weights");
  run.steps = row.at("steps"), run.batch = row.at("batch"), run.tokens = row.at("tokens");
  run.budget = row.at("budget"), run.flops = row.at("flops"), run.rate = row.at("rate");
  run.mup = row.at("mup"), run.target = row.at("target");
  run.cpu_seconds = row.at("cpu_seconds");
  const Json& loss = row.at("loss");
  run.loss = loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>();
  return run;
}

Json report(const std::string& file) {
  const std::string path = std::string(YOTTA_SOURCE_DIR) + "/bench/results/scaling/" + file;
  try {
    return Json::parse(read_file(path, Where::current()));
  } catch (const Json::exception& error) {
    fail(Where::current(), "{} is no report of ./yotta bench scaling: {}", path, error.what());
  }
}

ScalingResults read_all() {
  const Json first = report("runs.json"), last = report("held_out.json");
  ScalingResults all;
  all.command = first.at("command"), all.date = first.at("date");
  all.machine = first.at("machine"), all.train_bytes = first.at("train_bytes");
  for (const Json& from : {first, last})
    for (const Json& row : from.at("runs")) all.runs.push_back(run_of(row));
  for (const Json& row : first.at("noise"))
    all.noise.push_back(
        {row.at("first_step"), row.at("steps"), row.at("loss"), row.at("signal"), row.at("noise")});
  std::sort(all.runs.begin(), all.runs.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.budget, a.weights, a.batch, !a.mup, a.rate, a.loss) <
           std::tuple(b.budget, b.weights, b.batch, !b.mup, b.rate, b.loss);
  });
  return all;
}

}  // namespace

const ScalingResults& scaling_results() {
  static const ScalingResults all = read_all();
  return all;
}

std::vector<MeasuredRun> ScalingResults::part(const std::string& name) const {
  std::vector<MeasuredRun> found;
  for (const MeasuredRun& run : runs)
    if (run.part == name) found.push_back(run);
  return found;
}

std::vector<ScalingRun> ScalingResults::scaling_runs(const std::string& name,
                                                     bool with_output) const {
  std::vector<ScalingRun> found;
  for (const MeasuredRun& run : part(name))
    found.push_back({with_output ? run.weights : run.block_weights,
                     worth_of_tokens(run.tokens, train_bytes), run.flops, run.loss});
  return found;
}

double flops_each(const std::vector<ScalingRun>& runs) {
  double sum = 0;
  for (const ScalingRun& run : runs) sum += run.flops / (run.parameters * run.tokens);
  return sum / static_cast<double>(runs.size());
}

BatchSteps batch_steps(const ScalingResults& results) {
  std::map<double, double> least;
  for (const MeasuredRun& run : results.part("batch")) {
    if (!(run.loss < run.target + 0.1)) continue;  // did not get there
    const auto [at, is_new] = least.try_emplace(run.batch, run.steps);
    if (!is_new) at->second = std::min(at->second, run.steps);
  }
  BatchSteps all;
  for (const auto& [batch, steps] : least) all.batch.push_back(batch), all.steps.push_back(steps);
  return all;
}

MeasuredRun best_rate(const ScalingResults& results, int width, bool mup) {
  MeasuredRun best;
  best.loss = std::numeric_limits<double>::infinity();
  for (const MeasuredRun& run : results.part("width"))
    if (run.width == width && run.mup == mup && run.loss < best.loss) best = run;
  return best;
}

}  // namespace yotta
