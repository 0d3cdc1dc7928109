// The planner's speed: layouts of Llama 3 405B on a described cluster, looked at in a second.
//
// Each round plans anew, with empty caches. `layouts` are all that keep the rules; of each the
// memory and a bound of the time are found, of `estimated` ones the time itself. The figure is the
// median over rounds.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "bench.hpp"
#include "course/options/usage.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/plan/planner.hpp"

namespace {

using namespace yotta;

struct Options {
  std::string json, cluster = "h100x16384";
  int rounds = 3, threads = 2;
  int64_t sequences = 2048;
};

bench::Json measure(const Options& options) {
  PlanRequest request;
  request.config = llama3_405b();
  request.config.dtype = DType::bf16;
  request.cluster = cluster_named(options.cluster);
  request.sequence = 8192, request.tokens = options.sequences * request.sequence;
  std::vector<double> seconds;
  Plan plan;
  for (int round = 0; round < options.rounds; ++round) {
    const double start = seconds_now();
    plan = make_plan(request, {.threads = options.threads});
    seconds.push_back(seconds_now() - start);
  }
  const double median = bench::median(seconds);
  return {{"cluster", options.cluster},
          {"threads", options.threads},
          {"layouts", plan.layouts},
          {"fitting", plan.fitting},
          {"estimated", plan.estimated},
          {"seconds", median},
          {"layouts_per_second", static_cast<double>(plan.layouts) / median},
          {"best_step_seconds", plan.best.empty() ? 0 : plan.best[0].estimate.seconds}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The planner's speed: layouts of Llama 3 405B, looked at in a second.");
  Options options;
  app.add_option("--cluster", options.cluster, "as h100x16384");
  app.add_option("--sequences", options.sequences, "of 8192 tokens in a batch")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--rounds", options.rounds, "plans")->check(CLI::Range(1, 1000));
  app.add_option("--threads", options.threads, "that estimate")->check(CLI::Range(1, 64));
  app.add_option("--json", options.json, "write the figures to this file");
  if (const auto status = yotta::parse_or_end(app, argc, argv)) return *status;
  try {
    const bench::Json report = measure(options);
    fmt::print("{} layouts in {:.2f} s with {} threads: {:.0f} a second\n",
               report["layouts"].get<int64_t>(), report["seconds"].get<double>(), options.threads,
               report["layouts_per_second"].get<double>());
    return options.json.empty() ? 0 : bench::write_json(options.json, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
