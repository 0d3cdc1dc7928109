// Hogwild on real threads: how many writes are lost, and what the loss is afterwards, with writes
// of what was read plus a step, and with atomic additions. Lesson 31 prints what this wrote to
// bench/results/hogwild.json.
//
//     ./yotta bench hogwild --json bench/results/hogwild.json
#include <fmt/core.h>

#include <chrono>
#include <thread>

#include "bench.hpp"
#include "course/options/console.hpp"
#include "course/options/options.hpp"
#include "yotta/parallel/hogwild.hpp"

namespace {

using namespace yotta;
using bench::Json;

struct Measured {
  double lost = 0, loss = 0, seconds = 0;  // share of the writes; means over the runs
};

Measured measure(int touched, int threads, int64_t updates, int runs, HogwildWrites writes) {
  Measured mean;
  for (int i = 0; i < runs; ++i) {
    const HogwildProblem problem{.touched = touched, .seed = static_cast<uint64_t>(i + 1)};
    const auto begin = std::chrono::steady_clock::now();
    const HogwildRun run = race_hogwild(problem, threads, updates, 0.5 / touched, writes);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    mean.lost += static_cast<double>(run.lost) / static_cast<double>(run.writes) / runs;
    mean.loss += run.loss / runs;
    mean.seconds += taken.count() / runs;
  }
  return mean;
}

struct Plan {
  int threads = 8, runs = 5;
  int64_t updates = 200000;
};

// One row: with atomic additions too.
Json row_of(const Plan& plan, int touched, int threads, console::Table& table) {
  const int64_t count = std::max<int64_t>(1, 3 * plan.updates / touched);
  const auto run = [&](HogwildWrites writes) {
    return measure(touched, threads, count, plan.runs, writes);
  };
  const Measured over = run(HogwildWrites::overwrite), add = run(HogwildWrites::add);
  table.row({fmt::format("{} of 1000", touched), std::to_string(threads),
             fmt::format("{:.2f}%", 100 * over.lost), fmt::format("{:.2e}", over.loss),
             fmt::format("{:.2e}", add.loss), fmt::format("{:.3f}", over.seconds)});
  return {{"touched", touched},
          {"threads", threads},
          {"updates", count},
          {"lost", over.lost},
          {"loss_overwrite", over.loss},
          {"loss_add", add.loss},
          {"lost_add", add.lost},
          {"seconds_overwrite", over.seconds},
          {"seconds_add", add.seconds}};
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta bench hogwild", "Hogwild on real threads: writes that are lost");
  std::string json;
  Plan plan;
  options.add("--json", json, "also write the rows to this file");
  options.add("--threads", plan.threads, "that share the weights", in_range(1, 256));
  options.add(
      "--updates", plan.updates,
      "gradients of all threads together, if each touches 3 weights; with more weights fewer",
      in_range(1, 1 << 30));
  options.add("--runs", plan.runs, "of each, with a seed each", in_range(1, 1000));
  if (const auto status = options.parse(argc, argv)) return *status;
  const unsigned cores = std::thread::hardware_concurrency();
  Json report = {
      {"benchmark", "hogwild"}, {"cores", cores}, {"threads", plan.threads}, {"runs", plan.runs}};
  console::Table table({"weights of a gradient", "threads", "lost", "overwrite", "add", "seconds"});
  for (const int touched : {3, 30, 100})
    for (const int threads : {1, plan.threads})
      report["rows"].push_back(row_of(plan, touched, threads, table));
  fmt::print("{} threads on {} cores\n{}", plan.threads, cores, table.text());
  return json.empty() ? 0 : bench::write_json(json, report);
}
