// What the virtual clock costs: a training step on thread ranks with and without it, in pairs.
//
// The program is the same each time: a GPT-2 transformer, forward, backward, gradients summed over
// the ranks, AdamW. It runs
//
//     off        without a clock: every op and message asks whether there is one
//     asked      with a clock that does nothing: what the asking costs, and a call on top of it. So
//                asked / off - 1 is more than what the asking alone costs when the clock is off
//     on         timed on h100x8, every event recorded
//     untraced   the same, recording nothing
//     wall       timed by this computer's own clock, recorded
//
// in turn, each round beginning with another one, so that a busy machine slows all of them. A
// figure is the median over rounds of the ratio to `off` in the same round. Two ways to sum
// gradients: `ring`, the same messages in all five; and `ddp` as users run it, where threads read
// each other's buffers when off and send messages when on.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>

#include "../course/options/console.hpp"
#include "bench.hpp"
#include "course/options/usage.hpp"
#include "yotta/comm/recording/recorder.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/ddp.hpp"

namespace {

using namespace yotta;
using bench::Json;
using bench::median;

struct Options {
  std::string json;
  int ranks = 2, rounds = 15, steps = 3;
  int64_t layers = 4, width = 128, tokens = 128;
};

constexpr std::array<const char*, 5> modes = {"off", "asked", "on", "untraced", "wall"};

class Idle : public CostSink {
 public:
  void op(const OpCost&) override {}
  EventStamp send(const MessageCost&) override { return {}; }
  void receive(const MessageCost&, const EventStamp&) override {}
  EventStamp now(int) override { return {}; }
  void wait(int, const EventStamp&) override {}
};

// Tokens to train on; which ones does not matter here.
Microbatch batch(const Options& options) {
  const Shape shape = {2, options.tokens};
  Microbatch made{Tensor::empty(shape, DType::i32), Tensor::empty(shape, DType::i32)};
  for (int64_t i = 0; i < 2 * options.tokens; ++i) {
    made.inputs.data<int32_t>()[i] = static_cast<int32_t>(i * 37 % 256);
    made.targets.data<int32_t>()[i] = static_cast<int32_t>((i + 1) * 37 % 256);
  }
  return made;
}

// Seconds of a step on one rank, after one that is not timed.
double step_seconds(const Options& options, Communicator& world, bool ring) {
  const Transformer model(
      gpt2_config(options.layers, options.width, 4, options.tokens, /*vocabulary=*/256));
  const std::vector<ParameterPtr> parameters = yotta::parameters(model.stack());
  AdamW adamw(parameters, {});
  std::unique_ptr<Ddp> ddp;
  if (!ring) ddp = std::make_unique<Ddp>(parameters, world, DdpOptions{});
  TrainHooks hooks;
  hooks.after_backward = [&] {
    if (ddp) return ddp->finish();
    for (const ParameterPtr& each : parameters)
      world.all_reduce(each->grad, ReduceOp::sum, {Algorithm::ring});
  };
  Trainer trainer(model.stack(), adamw, {.schedule = {1e-3, 1e-4, 1, 100}}, hooks);
  const std::vector<Microbatch> batches = {batch(options)};
  const int64_t all = 2 * options.tokens * world.size();
  trainer.step(0, batches, all);
  world.barrier({Algorithm::dissemination});
  const double start = seconds_now();
  for (int64_t step = 1; step <= options.steps; ++step) trainer.step(step, batches, all);
  world.barrier({Algorithm::dissemination});
  return (seconds_now() - start) / options.steps;
}

double run(const Options& options, const std::string& mode, bool ring) {
  const Cluster cluster = cluster_named("h100x8");
  const ClockOptions untraced{.trace = false};
  const WallClock::Time start = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<CostSink>> clocks;
  RunOptions run_options;
  if (mode != "off")
    run_options.clock = [&](int rank) {
      if (mode == "asked") clocks.push_back(std::make_unique<Idle>());
      if (mode == "on") clocks.push_back(std::make_unique<VirtualClock>(cluster, rank));
      if (mode == "untraced")
        clocks.push_back(std::make_unique<VirtualClock>(cluster, rank, untraced));
      if (mode == "wall") clocks.push_back(std::make_unique<WallClock>(rank, start));
      return clocks.back().get();
    };
  double seconds = 0;
  const auto body = [&](Communicator& world) {
    const double mine = step_seconds(options, world, ring);
    if (world.rank() == 0) seconds = mine;
  };
  const std::vector<RankReport> reports = run_ranks(options.ranks, body, run_options);
  for (const RankReport& report : reports) report.context->clock = nullptr;
  return seconds;
}

Json measure(const Options& options, bool ring) {
  std::array<std::vector<double>, modes.size()> seconds, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    std::array<double, modes.size()> now{};
    for (size_t i = 0; i < modes.size(); ++i) {
      const size_t mode = (i + static_cast<size_t>(round)) % modes.size();
      now[mode] = run(options, modes[mode], ring);
    }
    for (size_t mode = 0; mode < modes.size(); ++mode) {
      seconds[mode].push_back(now[mode]);
      ratios[mode].push_back(now[mode] / now[0]);
    }
  }
  Json row = {{"gradients", ring ? "ring" : "ddp"}, {"step_seconds", median(seconds[0])}};
  for (size_t mode = 1; mode < modes.size(); ++mode) row[modes[mode]] = median(ratios[mode]);
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the virtual clock costs: a training step with and without it, in pairs.");
  Options options;
  app.add_option("--ranks", options.ranks, "thread ranks")->check(CLI::Range(1, 8));
  app.add_option("--rounds", options.rounds, "of all five ways")->check(CLI::Range(1, 1000));
  app.add_option("--steps", options.steps, "timed in a run")->check(CLI::Range(1, 1000));
  app.add_option("--layers", options.layers, "of the transformer")->check(CLI::Range(1, 48));
  app.add_option("--width", options.width, "of the transformer")->check(CLI::Range(16, 4096));
  app.add_option("--tokens", options.tokens, "of a sequence")->check(CLI::Range(16, 4096));
  app.add_option("--json", options.json, "write the figures to this file");
  if (const auto status = yotta::parse_or_end(app, argc, argv)) return *status;
  console::Table table({"gradients", "off, ms", "asked/off", "on/off", "untraced/off", "wall/off"});
  Json report = {{"ranks", options.ranks}, {"rounds", options.rounds}, {"rows", Json::array()}};
  for (const bool ring : {true, false}) {
    const Json row = measure(options, ring);
    report["rows"].push_back(row);
    const auto ratio = [&](const char* mode) {
      return fmt::format("{:.3f}", row[mode].get<double>());
    };
    table.row({row["gradients"].get<std::string>(),
               fmt::format("{:.2f}", 1e3 * row["step_seconds"].get<double>()), ratio("asked"),
               ratio("on"), ratio("untraced"), ratio("wall")});
  }
  fmt::print("{}", table.text());
  return options.json.empty() ? 0 : bench::write_json(options.json, report);
}
