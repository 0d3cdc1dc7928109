// Small models trained on the course's text: what scaling laws are fitted to (lesson 29).
//
//     isoflop    for each budget of FLOPs seven sizes, each trained on as many tokens as the budget
//                pays
//     held_out   one larger run that no fit sees: --held-out FLOPS LAYERS WIDTH
//     forecast   trains nothing: what a fit to the isoflop runs of --runs FILE says about that
//                larger run
//     width      learning rates for four widths, with muP and without
//     batch      steps to one loss for several batch sizes, each with five learning rates
//     noise      the gradient noise scale along a run, from four data ranks
//
// Llama-like models of bytes, contexts of 64, 4 sequences per step, muP's learning rates, half a
// cosine as long as the run. Every tenth 4 KiB of the text are for validation. A model computes on
// one core; --threads of them at once.
//
// What is stored in bench/results/scaling/ was made in this order, so that the forecast is older
// than the run that it is about: 10 minutes of CPU, beside other work 50 minutes. course/ holds the
// text of commit 8372a06, as `git archive 8372a06 README.md lessons include` gives it.
//
//     ./yotta bench scaling --course course --json runs.json
//     ./yotta bench scaling --course course --parts forecast --runs runs.json --held-out 2.56e12 3
//     64 --json forecast.json ./yotta bench scaling --course course --parts none --forecast
//     forecast.json --held-out 2.56e12 3 64 --json held_out.json
#include "scaling.hpp"
#include "course/options/usage.hpp"

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>

#include "course/options/console.hpp"
#include "course/pictures/scaling_results.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/parallel/gradient_noise.hpp"

namespace {

using namespace yotta;
using namespace yotta::bench;

struct Options {
  std::string json, course = YOTTA_SOURCE_DIR, machine, runs, forecast;
  std::vector<std::string> parts = {"isoflop", "width", "batch", "noise"};
  std::vector<double> budgets = {1e10, 4e10, 1.6e11, 6.4e11};
  std::vector<double> held_out;
  double rate = 0.012, target = 2.6;
  uint64_t seed = 1;
  int threads = 2;
  size_t sizes = 7;
  int64_t width_steps = 200, noise_steps = 775;

  bool wants(const char* part) const {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
  Job held_out_job() const {
    if (held_out.size() != 3) throw std::runtime_error("a forecast needs --held-out");
    return job_of_budget("held_out", held_out[0], std::llround(held_out[1]),
                         std::llround(held_out[2]), rate);
  }
};

// A report that is on disk after each row. A row is a line of the file.
class Report {
 public:
  explicit Report(std::string file) : file_(std::move(file)) {}

  void begin(Json json) {
    json_ = std::move(json);
    if (!file_.empty()) write();
  }

  void set(const char* key, const Json& value) {
    json_[key] = value;
    if (!file_.empty()) write();
    fmt::print("{}: {}\n", key, value.dump());
  }

  void add(const char* rows, const Json& row) {
    const std::lock_guard lock(mutex_);
    json_[rows].push_back(row);
    if (!file_.empty()) write();
    fmt::print("{}\n", row.dump());
    std::fflush(stdout);
  }

 private:
  void write() const {
    std::string text;
    for (const auto& [key, value] : json_.items()) {
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
  Json json_;
  std::mutex mutex_;
};

void train_all(const std::vector<Job>& jobs, const ScalingText& data, int threads, Report& report) {
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> done = 0;
  console::Progress progress("models", std::ssize(jobs));
  RunOptions run;
  run.threads = 1;
  const auto body = [&](Communicator& world) {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      const double start = cpu_seconds();
      const Trained trained = train(jobs[i], data);
      report.add("runs", row_of(jobs[i], trained, cpu_seconds() - start));
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
void measure_noise_on(Communicator& world, const Job& job, const ScalingText& data,
                      Report& report) {
  Model model(job);
  GradientSquares squares;
  Trainer trainer(model.transformer.stack(), model.optimizer, {.schedule = job.schedule()},
                  noise_hooks(model, world, squares));
  const Batches text(data.train, context_length, job.seed);
  GradientNoise noise(noise_each, noise_ranks * noise_each);
  double loss = 0;
  int64_t window = 25, first = 0;
  for (int64_t step = 0; step < job.steps; ++step) {
    const Batch batch = text.draw(step, world.rank() * noise_each, noise_each);
    loss += trainer.step(step, microbatches_of(batch), job.step_tokens()).loss;
    noise.add(squares);
    if (step + 1 < first + window) continue;
    if (world.rank() == 0) report.add("noise", noise_row(first, window, loss, noise));
    first = step + 1, window *= 2, loss = 0;
    noise = GradientNoise(noise_each, noise_ranks * noise_each);
  }
}

void measure_noise(const Options& options, const ScalingText& data, Report& report) {
  Job job{.part = "noise", .layers = 2, .width = 32, .steps = options.noise_steps};
  job.batch = noise_ranks * noise_each;
  job.rate = options.rate * std::sqrt(2.0);
  job.constant = true, job.seed = options.seed;
  RunOptions run;
  run.threads = 1;
  run_ranks(
      noise_ranks, [&](Communicator& world) { measure_noise_on(world, job, data, report); }, run);
}

// What a fit to stored runs says about one that is still to be trained.
void store_forecast(const Options& options, const ScalingText& data, Report& report) {
  if (options.runs.empty()) throw std::runtime_error("the part forecast needs --runs FILE");
  const ScalingReport runs = read_scaling_report(options.runs);
  if (runs.text != hash_words(data.train + data.validation))
    throw std::runtime_error(options.runs + " was trained on another text: see --course");
  const Job job = options.held_out_job();
  const auto read = static_cast<double>(job.steps * job.step_tokens());
  ScalingRun run = counted_run(job.counted(), read, runs.train_bytes, 1);
  run.flops = job.flops_a_token() * read;
  const Forecast found = forecast_of(runs.scaling_runs("isoflop"), run);
  report.set("fitted", hash_runs(runs.scaling_runs("isoflop")));
  report.set("forecast", {{"budget", job.budget},
                          {"layers", job.layers},
                          {"width", job.width},
                          {"weights", run.parameters},
                          {"tokens", read},
                          {"loss", found.loss},
                          {"low", found.interval.low},
                          {"high", found.interval.high},
                          {"best_by_line", found.best_by_line},
                          {"best_by_law", found.best_by_law}});
}

// The run itself, with what the forecast's file was when it began.
Job forecast_job(const Options& options, Report& report) {
  const Job job = options.held_out_job();
  if (options.forecast.empty()) return job;
  const ScalingReport forecast = read_scaling_report(options.forecast);
  if (forecast.forecast.budget != job.budget || forecast.forecast.layers != job.layers ||
      forecast.forecast.width != job.width)
    throw std::runtime_error(
        fmt::format("{} is about {} FLOPs, {} layers and width {}, and --held-out is another run",
                    options.forecast, forecast.forecast.budget, forecast.forecast.layers,
                    forecast.forecast.width));
  report.set("forecast_file", hash_words(read_file(options.forecast, Where::current())));
  return job;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", std::gmtime(&time));
  return text;
}

// The commit of this source, with "-dirty" where it was changed since; empty outside of a checkout.
std::string source_commit() {
  FILE* const pipe =
      popen("git -C '" YOTTA_SOURCE_DIR "' describe --always --dirty --abbrev=12 2>/dev/null", "r");
  char text[64] = "";
  if (pipe == nullptr) return "";
  const bool found = std::fgets(text, sizeof text, pipe) != nullptr;
  pclose(pipe);
  return found ? std::string(text, std::strcspn(text, "\n")) : "";
}

Json description(const Options& options, const std::string& command, const ScalingText& data) {
  return {{"benchmark", "scaling"},
          {"command", command},
          {"date", now()},
          {"machine", options.machine},
          {"commit", source_commit()},
          {"seed", options.seed},
          {"text", hash_words(data.train + data.validation)},
          {"train_bytes", data.train.size()},
          {"validation_bytes", data.validation.size()},
          {"context", context_length}};
}

void run(const Options& options, const std::string& command) {
  const ScalingText data = split_pieces(course_text(options.course).bytes);
  Report report(options.json);
  report.begin(description(options, command, data));
  if (options.wants("forecast")) return store_forecast(options, data, report);
  std::vector<Job> jobs;
  const auto add = [&](const std::vector<Job>& more) {
    jobs.insert(jobs.end(), more.begin(), more.end());
  };
  if (options.wants("isoflop")) add(isoflop_jobs(options.budgets, options.sizes, options.rate));
  if (options.wants("width")) add(width_jobs(options.width_steps, options.rate));
  if (options.wants("batch")) add(batch_jobs(options.target, options.rate));
  if (!options.held_out.empty()) jobs.push_back(forecast_job(options, report));
  for (Job& job : jobs) job.seed = options.seed;
  if (!jobs.empty()) train_all(jobs, data, options.threads, report);
  if (options.wants("noise")) measure_noise(options, data, report);
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

void add_sizes(CLI::App& app, Options& options) {
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
  app.add_option("--seed", options.seed, "of initial values, and of what is drawn from the text");
}

void add_files(CLI::App& app, Options& options) {
  app.add_option("--threads", options.threads, "models trained at once")->check(CLI::Range(1, 64));
  app.add_option("--course", options.course, "the folder of the course whose text is learned");
  app.add_option("--runs", options.runs, "part forecast: the report whose isoflop runs are fitted");
  app.add_option("--forecast", options.forecast,
                 "a report of the part forecast; --held-out must be the run that it is about");
  app.add_option("--machine", options.machine, "words about this machine, for the report");
  app.add_option("--json", options.json, "write the report to this file, anew after each model");
}

std::string command_of(int argc, char** argv) {
  std::string command = "./yotta bench scaling";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    command += word.find(' ') == word.npos ? " " + word : " '" + word + "'";
  }
  return command;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Small models trained on the course's text: what scaling laws are fitted to (lesson 29).");
  Options options;
  app.add_option("--parts", options.parts, "isoflop, width, batch, noise, forecast, or none")
      ->check(CLI::IsMember({"isoflop", "width", "batch", "noise", "forecast", "none"}));
  add_sizes(app, options);
  add_files(app, options);
  if (const auto status = yotta::parse_or_end(app, argc, argv)) return *status;
  try {
    run(options, command_of(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
