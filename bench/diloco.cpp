// DDP and DiLoCo over a slow network: the seconds of a training step of each, and how many times
// faster DiLoCo is. The ranks are processes, and what they send is slowed down in
// software.
//
//     ./yotta bench diloco                                           20 Mbit/s, two processes
//     ./yotta bench diloco -- --link 1Gbit/s,50ms --ranks 4
//
// Both train the same model on the same tokens. DDP's steps are alike, so few are timed; of DiLoCo
// whole rounds are.
#include <fmt/core.h>

#include <numeric>

#include "bench.hpp"
#include "course/options/comm_choice.hpp"
#include "course/options/console.hpp"
#include "course/options/options.hpp"
#include "course/training/training.hpp"

namespace {

using namespace yotta;
using bench::Json;

struct Row {
  std::string name;
  int64_t parameters = 0;
  double step_seconds = 0, bytes = 0;  // of a step; what a rank sends in it
};

Row time_run(const std::string& name, TrainingPlan plan) {
  const TrainingFigures figures = run_training(plan, [](const StepFigures&) {});
  const auto steps = static_cast<double>(plan.steps);
  const double seconds =
      std::accumulate(figures.step_seconds.begin(), figures.step_seconds.end(), 0.0);
  return {name, figures.parameters, seconds / steps,
          static_cast<double>(figures.ranks[0].bytes_sent) / steps};
}

void print(const std::vector<Row>& rows) {
  fmt::print("{} parameters\n", rows[0].parameters);
  console::Table table({"", "s a step", "sent in a step", "times as fast"});
  for (const Row& row : rows)
    table.row({row.name, fmt::format("{:.3f}", row.step_seconds), console::bytes(row.bytes),
               fmt::format("{:.1f}", rows[0].step_seconds / row.step_seconds)});
  fmt::print("{}", table.text());
}

// DDP's steps, then DiLoCo's rounds: as the weights, and with 8 and 4 bits.
std::vector<Row> time_all(TrainingPlan plan, int64_t ddp_steps, int64_t rounds) {
  plan.steps = ddp_steps;
  std::vector<Row> rows = {time_run("DDP", plan)};
  plan.workers = plan.ranks, plan.steps = rounds * plan.diloco.inner;
  for (const int bits : {0, 8, 4}) {
    plan.diloco.bits = bits;
    const std::string more = bits > 0 ? fmt::format(", {} bits", bits) : "";
    rows.push_back(time_run(fmt::format("DiLoCo, H = {}{}", plan.diloco.inner, more), plan));
  }
  return rows;
}

Json report_of(const std::vector<Row>& rows) {
  Json report = {{"benchmark", "diloco"}, {"parameters", rows[0].parameters}};
  for (const Row& row : rows)
    report["rows"].push_back({{"name", row.name},
                              {"step_seconds", row.step_seconds},
                              {"bytes_a_step", row.bytes},
                              {"ratio", rows[0].step_seconds / row.step_seconds}});
  return report;
}

// "--link 1Gbit/s", or "--link=1Gbit/s".
bool is_given(const std::vector<std::string>& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& each) {
    return each == name || each.starts_with(name + "=");
  });
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta bench diloco", "Times DDP and DiLoCo over slow links");
  TrainingPlan plan;
  plan.model = gpt2_config(4, 128, 4, 128, 256);
  plan.ranks = 2, plan.batch = 2, plan.measure_seconds = 0, plan.gradients = "bucketed";
  std::string json;
  int64_t ddp_steps = 3, rounds = 2;
  options.add("--json", json, "also write the rows to this file");
  options.add("--ranks", plan.ranks, "processes: DDP's ranks, DiLoCo's workers", in_range(2, 64));
  options.add("--inner", plan.diloco.inner, "DiLoCo's inner steps (H)", at_least(1));
  options.add("--ddp-steps", ddp_steps, "steps of DDP that are timed", at_least(1));
  options.add("--rounds", rounds, "of DiLoCo", at_least(1));
  options.add("--layers", plan.model.layers, "blocks (L)", at_least(1));
  options.add("--batch", plan.batch, "sequences in a step, of all ranks (B)", at_least(1));
  CommChoice comm;
  comm.add_option(options);
  std::vector<std::string> words(argv, argv + argc);  // processes unless it says else
  for (const auto& [name, value] : {std::pair{"--comm", "processes"}, {"--link", "20Mbit/s"}})
    if (!is_given(words, name)) words.insert(words.end(), {name, value});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  const int count = static_cast<int>(arguments.size());
  if (const auto status = options.parse(count, arguments.data())) return *status;
  try {
    comm.start(count, arguments.data(), {plan.ranks, "--ranks", 2, 64});
    const std::vector<Row> rows = time_all(plan, ddp_steps, rounds);
    if (!comm.is_first()) return comm.finish("");
    print(rows);
    if (!json.empty() && bench::write_json(json, report_of(rows)) != 0)
      return comm.finish("cannot write " + json);
    return comm.finish("");
  } catch (const std::exception& error) {
    return comm.finish(error.what());
  }
}
