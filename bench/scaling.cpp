// Small models trained on the course's text: what scaling laws are fitted to (lesson 29).
//
//     isoflop    for each budget of FLOPs seven sizes, each trained on as many tokens as the budget pays
//     held_out   one larger run that no fit sees: --held-out FLOPS LAYERS WIDTH
//     width      learning rates for four widths, with muP and without
//     batch      steps to one loss for several batch sizes
//     noise      the gradient noise scale along a run, from four data ranks
//
// Llama-like models of bytes, contexts of 64, 4 sequences a step, muP's learning rates, half a cosine as long as the run.
// Every tenth 4 KiB of the text are for validation. A model computes on one core; --threads of them at once.
//
// What is stored in bench/results/scaling/ took 10 minutes of CPU:
//
//     ./yotta bench scaling --json runs.json
//     ./yotta bench scaling --parts none --held-out 2.56e12 3 64 --json held_out.json
#include <CLI/CLI.hpp>
#include <atomic>
#include <cmath>
#include <ctime>
#include <functional>
#include <mutex>

#include "bench.hpp"
#include "course/shared/console.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/model/transformer.hpp"
#include "yotta/model/width_scaling.hpp"
#include "yotta/parallel/gradient_noise.hpp"
#include "yotta/plan/mfu.hpp"

namespace {

using namespace yotta;
using bench::Json;

constexpr int64_t context_length = 64, vocabulary = 256, base_width = 32, usual_batch = 4;
constexpr double base_deviation = 0.15;

struct Options {
  std::string json, course = YOTTA_SOURCE_DIR, machine;
  std::vector<std::string> parts = {"isoflop", "width", "batch", "noise"};
  std::vector<double> budgets = {1e10, 4e10, 1.6e11, 6.4e11};
  std::vector<double> held_out;
  double rate = 0.012, target = 2.6;
  int threads = 2, sizes = 7;
  int64_t width_steps = 200, noise_steps = 775;
};

// Sizes from small to large: layers and width.
constexpr std::pair<int64_t, int64_t> ladder[] = {{1, 8},  {1, 16}, {1, 24}, {2, 24}, {2, 32},
                                                  {2, 40}, {3, 40}, {3, 48}, {3, 56}, {3, 64},
                                                  {4, 64}, {4, 72}, {4, 80}, {4, 96}};

struct Data {
  std::string train, validation;
};

Data read_data(const std::string& course) {
  constexpr size_t piece = 4096;
  const std::string text = course_text(course).bytes;
  Data data;
  for (size_t at = 0; at < text.size(); at += piece)
    (at / piece % 10 == 9 ? data.validation : data.train) += text.substr(at, piece);
  return data;
}

TransformerConfig config_of(int64_t layers, int64_t width) {
  TransformerConfig config = llama_config(layers, width, 8 * width / 3 / 8 * 8, width / 8,
                                          width / 8, context_length, vocabulary);
  config.deviation = base_deviation;
  return config;
}

// A model in training.
struct Job {
  std::string part;
  int64_t layers = 1, width = 32, steps = 0, batch = usual_batch;
  double budget = 0, rate = 0;
  WidthRule rule = WidthRule::mup;
  bool constant = false;  // the learning rate, after a warm-up
  double target = 0;      // stop at this loss

  double wider() const { return static_cast<double>(width) / base_width; }
  CountedModel counted() const { return counted_model(config_of(layers, width)); }
  double flops_a_token() const { return model_flops(counted(), context_length, Scores::causal); }
};

struct Model {
  Model(const Job& job)
      : transformer(config_of(job.layers, job.width)),
        parameters(yotta::parameters(transformer.stack())),
        optimizer(parameters, job.wider(), job.rule) {
    scale_initial_values(parameters, job.wider(), job.rule);
  }
  Transformer transformer;
  std::vector<ParameterPtr> parameters;
  WidthScaledAdamW optimizer;
};

Schedule schedule_of(const Job& job) {
  const int64_t warmup = job.constant ? 20 : std::max<int64_t>(job.steps / 20, 1);
  return {job.rate, job.constant ? job.rate : job.rate / 10, warmup, job.steps};
}

std::vector<Microbatch> microbatches_of(const Batch& batch) {
  return microbatches(batch.inputs, batch.targets, 1);
}

double validation_loss(const Model& model, const Batches& text, int64_t sequences) {
  std::vector<Microbatch> parts;
  const int64_t apart = std::max<int64_t>(text.sequences() / sequences, 1);
  for (int64_t i = 0; i < sequences; ++i) {
    const Batch one = text.in_order(i * apart % text.sequences(), 1);
    parts.push_back({one.inputs, one.targets});
  }
  return evaluate(model.transformer.stack(), parts);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Trains; the loss on 256 sequences that it has not seen. A run that diverges has none.
Json train(const Job& job, const Data& data) {
  const double start = cpu_seconds();
  Model model(job);
  Trainer trainer(model.transformer.stack(), model.optimizer,
                  {.schedule = schedule_of(job), .spike_factor = 0});
  const Batches text(data.train, context_length, 1), unseen(data.validation, context_length, 1);
  const int64_t tokens = job.batch * context_length;
  int64_t step = 0, next_look = 8;
  double loss = 0;
  try {
    for (; step < job.steps; ++step) {
      if (job.target > 0 && step == next_look) {
        if ((loss = validation_loss(model, unseen, 64)) <= job.target) break;
        next_look += 1 + next_look / 24;
      }
      const std::vector<Microbatch> batches = microbatches_of(text.draw(step, 0, job.batch));
      trainer.step(step, batches, tokens);
    }
    loss = validation_loss(model, unseen, 256);
  } catch (const TrainingDiverged&) {
    loss = NAN;
  }
  return {{"part", job.part},
          {"layers", job.layers},
          {"width", job.width},
          {"weights", met_weights(job.counted())},
          {"block_weights", met_weights(job.counted()) - output_weights(job.counted())},
          {"steps", step},
          {"batch", job.batch},
          {"tokens", step * tokens},
          {"budget", job.budget},
          {"flops", job.flops_a_token() * static_cast<double>(step * tokens)},
          {"rate", job.rate},
          {"mup", job.rule == WidthRule::mup},
          {"target", job.target},
          {"loss", loss},
          {"cpu_seconds", cpu_seconds() - start}};
}

Job of_budget(const char* part, double budget, int64_t layers, int64_t width, double rate) {
  Job job{.part = part, .layers = layers, .width = width, .budget = budget, .rate = rate};
  job.steps = std::llround(budget / job.flops_a_token() / (usual_batch * context_length));
  return job;
}

// The sizes around the one that has ten tokens for each weight.
void add_isoflop(std::vector<Job>& jobs, const Options& options) {
  const auto sizes = static_cast<size_t>(options.sizes);
  for (const double budget : options.budgets) {
    size_t middle = 0;
    for (size_t i = 0; i < std::size(ladder); ++i) {
      const Job job{.part = "isoflop", .layers = ladder[i].first, .width = ladder[i].second};
      if (met_weights(job.counted()) < std::sqrt(budget / 60)) middle = i;
    }
    const size_t first = std::min(middle - std::min(middle, sizes / 2), std::size(ladder) - sizes);
    for (size_t i = first; i < first + sizes; ++i)
      jobs.push_back(of_budget("isoflop", budget, ladder[i].first, ladder[i].second, options.rate));
  }
}

void add_widths(std::vector<Job>& jobs, const Options& options) {
  for (const WidthRule rule : {WidthRule::mup, WidthRule::standard})
    for (const int64_t width : {16, 32, 64, 128})
      for (int i = -3; i <= 3; ++i)
        jobs.push_back({.part = "width",
                        .layers = 2,
                        .width = width,
                        .steps = options.width_steps,
                        .rate = options.rate * std::pow(2.0, i),
                        .rule = rule});
}

void add_batches(std::vector<Job>& jobs, const Options& options) {
  for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64})
    for (const double factor : {0.5, 1.0, 2.0})
      jobs.push_back(
          {.part = "batch",
           .layers = 2,
           .width = 32,
           .steps = 16384 / batch,
           .batch = batch,
           .rate = factor * options.rate * std::sqrt(static_cast<double>(batch) / usual_batch),
           .constant = true,
           .target = options.target});
}

// A report that is on disk after each row. A row is a line of the file.
class Report {
 public:
  explicit Report(const Options& options) : file_(options.json) {}
  Json json;

  void add(const char* rows, const Json& row) {
    const std::lock_guard lock(mutex_);
    json[rows].push_back(row);
    if (!file_.empty()) write();
    fmt::print("{}\n", row.dump());
    std::fflush(stdout);
  }

 private:
  void write() const {
    std::string text;
    for (const auto& [key, value] : json.items()) {
      std::string lines = value.is_array() ? "" : value.dump();
      if (value.is_array())
        for (const Json& row : value) lines += (lines.empty() ? "[\n  " : ",\n  ") + row.dump();
      text += fmt::format("{}\n {}: {}{}", text.empty() ? "{" : ",", Json(key).dump(), lines,
                          value.is_array() ? "\n ]" : "");
    }
    std::ofstream file(file_);
    file << text << "\n}\n";
    if (!file.flush()) throw std::runtime_error("cannot write " + file_);
  }

  std::string file_;
  std::mutex mutex_;
};

void train_all(const std::vector<Job>& jobs, const Data& data, int threads, Report& report) {
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> done = 0;
  console::Progress progress("models", std::ssize(jobs));
  RunOptions run;
  run.threads = 1;
  const auto body = [&](Communicator& world) {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      report.add("runs", train(jobs[i], data));
      ++done;
      if (world.rank() == 0) progress.update(done);
    }
  };
  run_ranks(threads, body, run);
}

// Sums gradients over ranks, and keeps how long they were.
TrainHooks noise_hooks(const Model& model, Communicator& world, GradientSquares& squares) {
  TrainHooks hooks;
  hooks.after_backward = [&] { squares = all_reduce_squares(model.parameters, world); };
  hooks.sum_over_ranks = [&](double loss) {
    std::vector<double> sum = {loss};
    world.all_reduce(sum);
    return sum[0];
  };
  return hooks;
}

Json noise_row(int64_t first, int64_t steps, double loss, const GradientNoise& noise) {
  return {{"first_step", first},
          {"steps", steps},
          {"loss", loss / static_cast<double>(steps)},
          {"signal", noise.signal()},
          {"noise", noise.noise()},
          {"scale", std::isfinite(noise.scale()) ? Json(noise.scale()) : Json()}};
}

// One of four data ranks of two sequences each, which train one model; a row for each window of
// steps.
constexpr int noise_ranks = 4;
constexpr int64_t noise_each = 2;
void measure_noise_on(Communicator& world, const Job& job, const Data& data, Report& report) {
  Model model(job);
  GradientSquares squares;
  Trainer trainer(model.transformer.stack(), model.optimizer, {.schedule = schedule_of(job)},
                  noise_hooks(model, world, squares));
  const Batches text(data.train, context_length, 1);
  GradientNoise noise(noise_each, noise_ranks * noise_each);
  double loss = 0;
  int64_t window = 25, first = 0;
  for (int64_t step = 0; step < job.steps; ++step) {
    const Batch batch = text.draw(step, world.rank() * noise_each, noise_each);
    loss += trainer.step(step, microbatches_of(batch), job.batch * context_length).loss;
    noise.add(squares);
    if (step + 1 < first + window) continue;
    if (world.rank() == 0) report.add("noise", noise_row(first, window, loss, noise));
    first = step + 1, window *= 2, loss = 0;
    noise = GradientNoise(noise_each, noise_ranks * noise_each);
  }
}

void measure_noise(const Options& options, const Data& data, Report& report) {
  Job job{.part = "noise", .layers = 2, .width = 32, .steps = options.noise_steps};
  job.batch = noise_ranks * noise_each;
  job.rate = options.rate * std::sqrt(2.0);
  job.constant = true;
  RunOptions run;
  run.threads = 1;
  run_ranks(
      noise_ranks, [&](Communicator& world) { measure_noise_on(world, job, data, report); }, run);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

void run(const Options& options, const std::string& command) {
  const Data data = read_data(options.course);
  Report report(options);
  report.json = {{"benchmark", "scaling"},
                 {"command", command},
                 {"date", today()},
                 {"machine", options.machine},
                 {"train_bytes", data.train.size()},
                 {"validation_bytes", data.validation.size()},
                 {"context", context_length}};
  const auto wanted = [&](const char* part) {
    return std::find(options.parts.begin(), options.parts.end(), part) != options.parts.end();
  };
  std::vector<Job> jobs;
  if (wanted("isoflop")) add_isoflop(jobs, options);
  if (wanted("width")) add_widths(jobs, options);
  if (wanted("batch")) add_batches(jobs, options);
  if (options.held_out.size() == 3)
    jobs.push_back(of_budget("held_out", options.held_out[0], std::llround(options.held_out[1]),
                             std::llround(options.held_out[2]), options.rate));
  if (!jobs.empty()) train_all(jobs, data, options.threads, report);
  if (wanted("noise")) measure_noise(options, data, report);
}

// A number between two; NaN is not (CLI::Range lets it pass).
CLI::Validator within(double least, double most) {
  const auto check = [least, most](const std::string& word) {
    const double value = std::strtod(word.c_str(), nullptr);
    const bool holds = value >= least && value <= most;
    return holds ? "" : fmt::format("{}: expected a number from {} to {}", word, least, most);
  };
  return {check, fmt::format("from {} to {}", least, most)};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Small models trained on the course's text: what scaling laws are fitted to (lesson 29).");
  Options options;
  app.add_option("--parts", options.parts, "isoflop, width, batch, noise, or none")
      ->check(CLI::IsMember({"isoflop", "width", "batch", "noise", "none"}));
  app.add_option("--budgets", options.budgets, "FLOPs of a run, for isoflop")
      ->check(within(1e6, 1e18));
  app.add_option("--sizes", options.sizes, "models of a budget")->check(CLI::Range(1, 7));
  app.add_option("--held-out", options.held_out, "FLOPs, layers and width of one run more")
      ->expected(3)
      ->check(within(1, 1e18));
  app.add_option("--rate", options.rate, "learning rate at the base width")->check(within(1e-6, 1));
  app.add_option("--target", options.target, "loss that batch sizes are compared at")
      ->check(within(0.1, 5));
  app.add_option("--width-steps", options.width_steps, "of each run of the part width")
      ->check(CLI::Range(1, 100000));
  app.add_option("--noise-steps", options.noise_steps, "of the part noise")
      ->check(CLI::Range(1, 100000));
  app.add_option("--threads", options.threads, "models trained at once")->check(CLI::Range(1, 64));
  app.add_option("--course", options.course, "the folder of the course whose text is learned");
  app.add_option("--machine", options.machine, "words about this machine, for the report");
  app.add_option("--json", options.json, "write the report to this file, anew after each model");
  CLI11_PARSE(app, argc, argv);
  try {
    std::string command = "./yotta bench scaling";
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      command += word.find(' ') == word.npos ? " " + word : " '" + word + "'";
    }
    run(options, command);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
