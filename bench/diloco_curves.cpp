// DDP, DiLoCo, its streaming form, gossip and a server on a small transformer over four cities: the loss of each step, with the
// bytes that rank 0 had sent and the seconds that had passed on the described machine. course/pictures/diloco.svg is
// drawn from what this writes.
//
//     ./yotta bench diloco_curves --json bench/results/diloco_curves.json
#include <fmt/core.h>

#include "bench.hpp"
#include "course/shared/console.hpp"
#include "course/shared/diloco_runs.hpp"
#include "course/shared/options.hpp"
#include "yotta/model/text.hpp"

namespace {

using namespace yotta;
using bench::Json;

// Means of every `width` numbers, for a curve that can be read.
std::vector<double> smoothed(const std::vector<double>& all, size_t width) {
  std::vector<double> means;
  for (size_t begin = 0; begin + width <= all.size(); begin += width) {
    double sum = 0;
    for (size_t i = begin; i < begin + width; ++i) sum += all[i];
    means.push_back(sum / static_cast<double>(width));
  }
  return means;
}
std::vector<double> every(const std::vector<double>& all, size_t width) {
  std::vector<double> some;
  for (size_t i = width - 1; i < all.size(); i += width) some.push_back(all[i]);
  return some;
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta bench diloco_curves", "Loss against tokens, bytes and time over cities");
  DilocoRun run;
  run.steps = 600;
  std::string json, text_file;
  options.add("--json", json, "also write the curves to this file");
  options.add("--steps", run.steps, "of each way", at_least(10));
  options.add("--batch", run.batch, "sequences in a step, of all workers", at_least(4));
  options.add("--text", text_file, "a UTF-8 file or folder; default: this course's own text");
  if (const auto status = options.parse(argc, argv)) return *status;
  try {
    const Text text = text_file.empty() ? course_text(YOTTA_SOURCE_DIR) : read_text(text_file);
    Json report = {{"benchmark", "diloco_curves"},
                   {"machine", "citiesx4"},
                   {"steps", run.steps},
                   {"tokens_a_step", run.batch * run.model.context}};
    console::Table table({"", "loss at the end", "sent by rank 0", "seconds"});
    for (const DilocoWay& way : diloco_ways()) {
      const DilocoCurve curve = run_diloco(way, run, text.bytes);
      const std::vector<double> loss = smoothed(curve.loss, 10);
      table.row({way.name, fmt::format("{:.3f}", loss.back()), console::bytes(curve.bytes.back()),
                 fmt::format("{:.1f}", curve.seconds.back())});
      report["rows"].push_back({{"name", way.name},
                                {"loss", loss},
                                {"bytes", every(curve.bytes, 10)},
                                {"seconds", every(curve.seconds, 10)}});
    }
    fmt::print("{}", table.text());
    return json.empty() ? 0 : bench::write_json(json, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
