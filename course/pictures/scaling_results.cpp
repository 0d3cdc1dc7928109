#include "course/pictures/scaling_results.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "yotta/core/random.hpp"
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

Forecast forecast_in(const Json& row) {
  Forecast forecast;
  forecast.budget = row.at("budget"), forecast.weights = row.at("weights");
  forecast.tokens = row.at("tokens"), forecast.loss = row.at("loss");
  forecast.layers = row.at("layers"), forecast.width = row.at("width");
  forecast.interval = {row.at("low"), row.at("high")};
  forecast.best_by_line = row.at("best_by_line"), forecast.best_by_law = row.at("best_by_law");
  return forecast;
}

ScalingReport report_of(const Json& json) {
  ScalingReport all;
  all.command = json.at("command"), all.date = json.at("date"), all.machine = json.at("machine");
  all.commit = json.at("commit"), all.text = json.at("text"), all.seed = json.at("seed");
  all.train_bytes = json.at("train_bytes");
  for (const Json& row : json.value("runs", Json::array())) all.runs.push_back(run_of(row));
  for (const Json& row : json.value("noise", Json::array()))
    all.noise.push_back(
        {row.at("first_step"), row.at("steps"), row.at("loss"), row.at("signal"), row.at("noise")});
  if (json.contains("forecast")) all.forecast = forecast_in(json.at("forecast"));
  all.fitted = json.value("fitted", ""), all.forecast_file = json.value("forecast_file", "");
  return all;
}

ScalingResults read_all() {
  const std::string folder = std::string(YOTTA_SOURCE_DIR) + "/bench/results/scaling/";
  ScalingResults all{read_scaling_report(folder + "runs.json"),
                     read_scaling_report(folder + "forecast.json"),
                     read_scaling_report(folder + "held_out.json")};
  for (const ScalingReport* each : {&all.forecast_report, &all.held_out_report})
    if (each->text != all.text || each->seed != all.seed)
      fail(Where::current(), "{}: a report of the text {} and seed {}, beside runs of {} and {}",
           folder, each->text, each->seed, all.text, all.seed);
  const std::vector<MeasuredRun>& held_out = all.held_out_report.runs;
  all.runs.insert(all.runs.end(), held_out.begin(), held_out.end());
  std::sort(all.runs.begin(), all.runs.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.budget, a.weights, a.batch, !a.mup, a.rate, a.loss) <
           std::tuple(b.budget, b.weights, b.batch, !b.mup, b.rate, b.loss);
  });
  return all;
}

}  // namespace

ScalingReport read_scaling_report(const std::string& path) {
  try {
    return report_of(Json::parse(read_file(path, Where::current())));
  } catch (const Json::exception& error) {
    fail(Where::current(), "{} is not a report of ./yotta bench scaling: {}", path, error.what());
  }
}

const ScalingResults& scaling_results() {
  static const ScalingResults all = read_all();
  return all;
}

std::vector<MeasuredRun> ScalingReport::part(const std::string& name) const {
  std::vector<MeasuredRun> found;
  for (const MeasuredRun& run : runs)
    if (run.part == name) found.push_back(run);
  return found;
}

std::vector<ScalingRun> ScalingReport::scaling_runs(const std::string& name,
                                                    bool with_output) const {
  std::vector<ScalingRun> found;
  for (const MeasuredRun& run : part(name))
    found.push_back({with_output ? run.weights : run.block_weights,
                     worth_of_tokens(run.tokens, train_bytes), run.flops, run.loss});
  return found;
}

std::string hash_words(std::string_view text) { return fmt::format("{:016x}", hash_name(text)); }

std::string hash_runs(const std::vector<ScalingRun>& runs) {
  std::vector<std::string> lines;
  for (const ScalingRun& run : runs)
    lines.push_back(fmt::format("{} {} {} {}\n", run.parameters, run.tokens, run.flops, run.loss));
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return hash_words(text);
}

Forecast forecast_of(const std::vector<ScalingRun>& runs, const ScalingRun& run) {
  const LossLaw law = fit_loss_law(runs);
  std::vector<double> losses;
  for (const LossLaw& each : bootstrap(runs, 100, 1))
    losses.push_back(each(run.parameters, run.tokens));
  Forecast forecast;
  forecast.loss = law(run.parameters, run.tokens);
  forecast.interval = middle(losses);
  forecast.best_by_line = parameters_line(isoflop_minima(runs))(run.flops);
  forecast.best_by_law = optimum(law, run.flops, flops_each(runs)).parameters;
  return forecast;
}

double flops_each(const std::vector<ScalingRun>& runs) {
  double sum = 0;
  for (const ScalingRun& run : runs) sum += run.flops / (run.parameters * run.tokens);
  return sum / static_cast<double>(runs.size());
}

BatchSteps batch_steps(const ScalingResults& results) {
  std::map<double, std::vector<MeasuredRun>> sweeps;
  for (const MeasuredRun& run : results.part("batch")) sweeps[run.batch].push_back(run);
  BatchSteps all;
  for (auto& [batch, runs] : sweeps) {
    std::sort(runs.begin(), runs.end(),
              [](const auto& a, const auto& b) { return a.rate < b.rate; });
    const MeasuredRun* best = nullptr;
    for (const MeasuredRun& run : runs)
      if (run.loss < run.target + 0.1 && (best == nullptr || run.steps < best->steps)) best = &run;
    if (best == nullptr) continue;  // none got there
    all.batch.push_back(batch), all.steps.push_back(best->steps), all.rate.push_back(best->rate);
    all.tried.push_back({runs.front().rate, runs.back().rate});
  }
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
