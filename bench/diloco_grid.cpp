// The loss that DiLoCo ends with, for numbers of workers k and of inner steps H, over several
// seeds: at the same tokens as one rank's run, which stands above.
//
//     ./yotta bench diloco_grid
//
// The batch of a step is shared by the workers, so every run sees the same tokens. A seed draws
// weights and batches. Losses are those on the kept part of the text; the second number is the
// standard deviation. No run is stopped because its loss jumps: with few sequences a worker's loss
// does. One whose numbers are not finite is stopped, and counted as such.
#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "bench.hpp"
#include "course/options/console.hpp"
#include "course/options/options.hpp"
#include "course/training/diloco_options.hpp"
#include "course/training/training.hpp"
#include "yotta/model/text.hpp"

namespace {

using namespace yotta;
using bench::Json;

struct Grid {
  std::vector<int64_t> workers = {1, 2, 4, 8}, inner = {1, 10, 50, 200};
  int64_t seeds = 3;
  DilocoOptions options;
  TrainingPlan plan;
};

struct Cell {
  int64_t k, inner;
  std::vector<double> losses = {};
  double sent = 0;  // bytes in a step, of one rank
  int64_t stopped = 0;

  double mean() const {
    double sum = 0;
    for (const double each : losses) sum += each;
    return sum / static_cast<double>(losses.size());
  }
  double deviation() const {
    double sum = 0;
    for (const double each : losses) sum += (each - mean()) * (each - mean());
    return losses.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(losses.size() - 1));
  }
};

// k 0: one rank, plain training.
Cell run_cell(const Grid& grid, int64_t k, int64_t inner) {
  Cell cell{k, inner};
  for (int64_t seed = 0; seed < grid.seeds; ++seed) {
    TrainingPlan plan = grid.plan;
    plan.model.seed = static_cast<uint64_t>(seed);
    plan.workers = static_cast<int>(k);
    plan.ranks = std::max(plan.workers, 1);
    plan.diloco = grid.options;
    plan.diloco.inner = inner;
    try {
      const TrainingFigures figures = run_training(plan, [](const StepFigures&) {});
      const auto steps = static_cast<double>(plan.steps);
      cell.losses.push_back(figures.validation_loss);
      cell.sent = static_cast<double>(figures.ranks[0].bytes_sent) / steps;
    } catch (const Error& error) {
      if (std::string(error.what()).find("is not finite") == std::string::npos) throw;
      ++cell.stopped;
    }
  }
  return cell;
}

std::vector<Cell> run_grid(const Grid& grid) {
  const auto count = static_cast<int64_t>(grid.workers.size() * grid.inner.size()) + 1;
  console::Progress progress("runs of the grid", count);
  std::vector<Cell> cells = {run_cell(grid, 0, 1)};
  for (const int64_t k : grid.workers)
    for (const int64_t inner : grid.inner) {
      progress.update(std::ssize(cells), "");
      cells.push_back(run_cell(grid, k, inner));
    }
  progress.finish();
  return cells;
}

// A list such as 1,2,4.
std::vector<int64_t> numbers(const char* option, const std::string& text, int64_t most) {
  std::vector<int64_t> made;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t number = 0;
    const auto [read, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (error != std::errc() || read != text.data() + end || number < 1 || number > most)
      fail(Where::current(), "{} has '{}': give whole numbers from 1 to {}, as 1,2,4", option,
           text.substr(begin, end - begin), most);
    made.push_back(number);
    begin = end + 1;
  }
  return made;
}

std::string in_words(const Cell& cell) {
  const std::string stopped = cell.stopped > 0 ? fmt::format("{} stopped", cell.stopped) : "";
  if (cell.losses.empty()) return stopped;
  return fmt::format("{:.3f} ({:.3f}) {}", cell.mean(), cell.deviation(), stopped);
}

void print(const Grid& grid, const std::vector<Cell>& cells) {
  std::vector<std::string> head = {"k"};
  for (const int64_t inner : grid.inner) head.push_back(fmt::format("H = {}", inner));
  console::Table table(head);
  for (size_t row = 0; row < grid.workers.size(); ++row) {
    std::vector<std::string> line = {std::to_string(grid.workers[row])};
    for (size_t i = 0; i < grid.inner.size(); ++i) {
      const Cell& cell = cells[1 + row * grid.inner.size() + i];
      line.push_back(in_words(cell));
    }
    table.row(line);
  }
  fmt::print("one rank: {}\n{}", in_words(cells[0]), table.text());
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta bench diloco_grid", "The loss of DiLoCo by workers and inner steps");
  Grid grid;
  TrainingPlan& plan = grid.plan;
  plan.model = gpt2_config(2, 64, 2, 64, 256);
  plan.steps = 400, plan.learning_rate = 1e-3, plan.measure_seconds = 0, plan.spike_factor = 0;
  std::string json, workers = "1,2,4,8", inner = "1,10,50,200";
  options.add("--json", json, "also write the losses to this file");
  options.add("--workers", workers, "numbers of workers (k)");
  options.add("--inner", inner, "inner steps (H)");
  options.add("--seeds", grid.seeds, "runs of each", in_range(1, 100));
  options.add("--steps", plan.steps, "inner steps in all", at_least(1));
  options.add("--batch", plan.batch, "sequences in a step, of all workers together", at_least(1));
  options.add("--lr", plan.learning_rate, "peak learning rate of the inner optimizer");
  options.add("--rate", grid.options.learning_rate, "of the outer step");
  options.add("--momentum", grid.options.momentum, "of the outer step");
  options.add("--text", plan.text, "a UTF-8 file or folder; default: this course's own text");
  if (const auto status = options.parse(argc, argv)) return *status;
  try {
    grid.workers = numbers("--workers", workers, 64);
    grid.inner = numbers("--inner", inner, int64_t{1} << 40);
    const std::vector<Cell> cells = run_grid(grid);
    print(grid, cells);
    const Text text = plan.text.empty() ? course_text(YOTTA_SOURCE_DIR) : read_text(plan.text);
    Json report = {{"benchmark", "diloco_grid"},
                   {"steps", plan.steps},
                   {"text", bench::text_mark(text.bytes)}};
    for (const Cell& cell : cells)
      report["rows"].push_back({{"k", cell.k},
                                {"inner", cell.inner},
                                {"losses", cell.losses},
                                {"stopped", cell.stopped},
                                {"mean", cell.mean()},
                                {"deviation", cell.deviation()},
                                {"bytes_a_step", cell.sent}});
    return json.empty() ? 0 : bench::write_json(json, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
