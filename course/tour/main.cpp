// ./yotta tour: measure this machine, train the same transformer on one rank and on four, and see
// why.
#include <algorithm>
#include <cmath>
#include <set>

#include "course/options/console.hpp"
#include "course/options/json_object.hpp"
#include "course/options/options.hpp"
#include "course/options/timelines.hpp"
#include "course/tour/real_cluster.hpp"
#include "course/tour/report.hpp"
#include "course/training/training.hpp"
#include "yotta/comm/recording/recorder.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/machine/files/cluster_file.hpp"
#include "yotta/model/text.hpp"

using namespace yotta;

namespace {

void heading(const char* text) { fmt::print("\n{}\n", console::paint(console::Color::bold, text)); }

TrainingFigures train(const TrainingPlan& plan, const std::string& title) {
  console::Progress progress(title, plan.steps);
  return run_training(plan, [&](const StepFigures& step) {
    progress.update(step.step,
                    fmt::format("loss {:.3f}  {:.0f} tokens/s", step.loss, step.tokens_per_second));
  });
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return most;
}

void machine(TourFigures& figures, int64_t steps) {
  heading("1. What this machine can do");
  const double seconds = std::min(1.0, static_cast<double>(steps) / 100);  // a short tour: less
  figures.cores = context().threads;
  figures.matmul_gflops = measure_matmul_gflops(figures.cores, seconds);
  figures.memory_gbps = measure_memory_gbps(figures.cores, seconds);
  fmt::print("{} cores: {:.0f} GFLOP/s in matrix products, {:.1f} GB/s from memory.\n",
             figures.cores, figures.matmul_gflops, figures.memory_gbps);
  fmt::print("A number from memory must be used in {:.0f} FLOPs, or the cores wait for it.\n",
             4 * figures.matmul_gflops / figures.memory_gbps);
}

// How long both trainings take, by a few steps.
double expected_seconds(TrainingPlan plan) {
  const auto steps = static_cast<double>(plan.steps);
  plan.steps = std::min<int64_t>(plan.steps, 5);
  plan.sample_tokens = 0;
  plan.measure_seconds = 0;
  const TrainingFigures tried = run_training(plan, [](const StepFigures&) {});
  return 2 * steps * static_cast<double>(tried.tokens_per_step) / tried.tokens_per_second;
}

void train_both(TourFigures& figures, TrainingPlan plan, int ranks) {
  heading("2. The same transformer on 1 rank and on several");
  plan.ranks = 1;
  const double minutes = expected_seconds(plan) / 60;
  if (minutes > 0.5)
    fmt::print("On this machine that takes about {:.0f} minutes.\n", std::ceil(minutes));
  const TrainingFigures serial = train(plan, "1 rank ");
  plan.ranks = ranks;
  plan.sample_tokens = 0;
  const TrainingFigures parallel = train(plan, fmt::format("{} ranks", ranks));
  figures.parameters = serial.parameters;
  figures.steps = std::ssize(serial.loss);
  figures.tokens_per_step = serial.tokens_per_step;
  figures.serial_loss = serial.loss;
  figures.parallel_loss = parallel.loss;
  figures.serial_tokens_per_second = serial.tokens_per_second;
  figures.parallel_tokens_per_second = parallel.tokens_per_second;
  figures.mfu = serial.mfu;
  figures.serial = serial.ranks;
  figures.parallel = parallel.ranks;
  figures.largest_difference = largest_difference(serial.loss, parallel.loss);
  figures.sample_before = printable(serial.sample_before);
  figures.sample_after = printable(serial.sample_after);
  figures.text += fmt::format(", {}", console::bytes(static_cast<double>(serial.text_bytes)));
}

void what_happened(const TourFigures& figures) {
  const size_t ranks = figures.parallel.size();
  heading("3. What happened");
  fmt::print("{:>6}  {:>9}  {:>9}\n", "step", "1 rank", fmt::format("{} ranks", ranks));
  const size_t last = figures.serial_loss.size() - 1;
  for (const size_t step : std::set{size_t{0}, last / 4, last / 2, 3 * last / 4, last})
    fmt::print("{:>6}  {:>9.4f}  {:>9.4f}\n", step, figures.serial_loss[step],
               figures.parallel_loss[step]);
  fmt::print(
      "The losses differ by {:.0e} at most: rounding, since {} ranks add the same gradients in "
      "another "
      "order.\n",
      figures.largest_difference, ranks);
  fmt::print(
      "{:.0f} tokens/s on 1 rank, {:.0f} on {}. They share the same {} cores: the arithmetic is "
      "the same, "
      "and the\ngradients' journey comes on top. On a cluster each rank brings its own GPU.\n",
      figures.serial_tokens_per_second, figures.parallel_tokens_per_second, ranks, figures.cores);
  console::Table table({"rank", "sent", "per step", "peak memory"});
  for (size_t r = 0; r < ranks; ++r) {
    const auto sent = static_cast<double>(figures.parallel[r].bytes_sent);
    table.row({std::to_string(r), console::bytes(sent),
               console::bytes(sent / static_cast<double>(figures.steps)),
               console::bytes(static_cast<double>(figures.parallel[r].peak_bytes))});
  }
  fmt::print("{}", table.text());
  fmt::print("The formula says 2(p-1)/p times the gradients per step: {}.\n",
             console::bytes(2.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks) * 4 *
                            static_cast<double>(figures.parameters)));
}

void techniques(TourFigures& figures, const TrainingPlan& plan, const Cluster& cluster) {
  heading("4. What each technique buys and costs, on four ranks");
  console::Progress progress("techniques", technique_count());
  figures.techniques = compare_techniques(
      plan, cluster, [&](int run, const std::string& name) { progress.update(run, name); });
  progress.update(technique_count());
  progress.finish();
  fmt::print("{}", techniques_text(figures.techniques));
  fmt::print(
      "The loss is the same for all, to rounding, but for the experts', which are another model. "
      "\"per step\": its time on {}, which is only described.\n",
      figures.cluster);
}

// The second of two steps: the first one comes after sharing the weights.
void one_step(TourFigures& figures, TrainingPlan plan, int ranks, const Cluster& cluster,
              const Timelines& timelines) {
  plan.ranks = ranks;
  plan.steps = 2;
  plan.sample_tokens = 0;
  plan.measure_seconds = 0;
  double first = 0, second = 0;  // when rank 0 had done it
  const Recorder recorder(cluster);
  const TrainingFigures trained = run_training(plan, [&](const StepFigures& step) {
    (step.step == 1 ? first : second) = context().clock->now(compute_lane).end;
  });
  figures.step = excerpt(recorder.trace(), first, second);
  TrainedSteps one = trained_steps(plan, trained);
  one.steps = 1;
  timelines.show(figures.step, fmt::format("5. One step of {} ranks on {}", ranks, figures.cluster),
                 one);
}

void samples(const TourFigures& figures) {
  heading("6. What the model writes");
  fmt::print("{} {}{}\n\n", console::paint(console::Color::dim, "before:"), figures.prompt,
             figures.sample_before);
  fmt::print("{} {}{}\n", console::paint(console::Color::dim, "after: "), figures.prompt,
             figures.sample_after);
}

void write_json(const std::string& path, const TourFigures& figures) {
  JsonObject json;
  json.set("ranks", std::ssize(figures.parallel));
  json.set("serial_loss", figures.serial_loss);
  json.set("parallel_loss", figures.parallel_loss);
  json.set("largest_difference", figures.largest_difference);
  json.set("tokens_per_second", figures.parallel_tokens_per_second);
  json.set("serial_tokens_per_second", figures.serial_tokens_per_second);
  json.set("matmul_gflops", figures.matmul_gflops);
  json.set("memory_gbps", figures.memory_gbps);
  json.set("mfu", figures.mfu);
  json.set("parameters", figures.parameters);
  json.set("sample_before", figures.sample_before);
  json.set("sample_after", figures.sample_after);
  std::vector<int64_t> sent, peaks;
  for (const RankFigures& rank : figures.parallel) {
    sent.push_back(rank.bytes_sent);
    peaks.push_back(rank.peak_bytes);
  }
  json.set("bytes_sent_per_rank", sent);
  json.set("peak_bytes", peaks);
  std::vector<JsonObject> techniques;
  for (const TechniqueFigures& each : figures.techniques) {
    JsonObject& made = techniques.emplace_back();
    made.set("name", each.name);
    made.set("options", each.layout);
    made.set("loss", each.loss);
    made.set("bytes_sent_per_step", each.bytes_per_step);
    made.set("peak_bytes", each.peak_bytes);
    made.set("step_seconds", each.step_seconds);
  }
  json.set("techniques", techniques);
  json.set("cluster", figures.cluster);
  json.set("serial_peak_bytes", figures.serial.front().peak_bytes);
  write_file(path, json.text());
}

}  // namespace

int main(int argc, char** argv) {
  Options options(
      "yotta tour",
      "Trains a transformer on one rank and on several, and shows what differs: some minutes.");
  TrainingPlan plan;
  plan.model = gpt2_config(4, 128, 4, 128, 256);
  plan.steps = 800;
  plan.learning_rate = 2e-3;
  plan.sample_tokens = 200;
  plan.prompt = "The ";
  TourFigures figures;
  Timelines timelines;
  int ranks = 4;
  std::string json, report = "report.html";
  options.add("--ranks", ranks, "ranks of the parallel run", in_range(2, 8));
  options.add("--steps", plan.steps, "optimizer steps of each run", in_range(1, 100000));
  options.add("--text", plan.text, "a UTF-8 file or folder; default: this course's own text");
  timelines.add_options(options, "h100x8");
  options.add("--report", report, "where the report goes");
  options.add("--json", json, "write every number shown to this file");
  if (const auto status = options.parse(argc, argv)) return *status;
  try {
    figures.text = plan.text.empty() ? "this course's own prose and headers" : plan.text;
    figures.model =
        fmt::format("GPT-2 dialect, {} layers, width {}", plan.model.layers, plan.model.width);
    figures.prompt = plan.prompt;
    figures.cluster = timelines.machine();
    const Cluster cluster = cluster_from(figures.cluster);  // what is wrong is heard now
    const int needed = std::max(4, ranks);
    if (cluster.size() < needed)
      fail(Where::current(), "--cluster {} has {} chips, and the tour needs {}", figures.cluster,
           cluster.size(), needed);
    timelines.check();
    expect_writable(report);
    if (!json.empty()) expect_writable(json);
    machine(figures, plan.steps);
    train_both(figures, plan, ranks);
    what_happened(figures);
    techniques(figures, plan, cluster);
    one_step(figures, plan, ranks, cluster, timelines);
    samples(figures);
    figures.book = book_from(report);
    write_file(report, report_html(figures));
    if (!json.empty()) write_json(json, figures);
    heading("7. What would this model need on a real cluster?");
    print_on_real_clusters(plan.model);
    heading("8. Next");
    fmt::print("{} has the curves and tables: open it in a browser. Then:\n", report);
    fmt::print("  ./yotta lesson 00      what a rank is, and every letter\n");
    fmt::print("  ./yotta lesson 10      how the ranks added up their gradients\n");
    fmt::print("  ./yotta check 10       write the ring yourself\n");
    fmt::print("  ./yotta plan --model llama3-405b --cluster h100x16384 --tokens 16M\n");
    console::expect_printed();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{} {}\n", console::paint(console::Color::red, "error:", stderr),
               error.what());
    return 1;
  }
}
