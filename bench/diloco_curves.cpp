// DDP and DiLoCo's family on a small transformer over four cities: the loss on the kept part of a
// text, with the bytes that worker 0 had sent and the seconds that had passed on the described
// machine. course/pictures/diloco.svg is drawn from what this writes.
//
//     ./yotta bench diloco_curves --json bench/results/diloco_curves.json
#include <fmt/core.h>

#include "bench.hpp"
#include "course/options/console.hpp"
#include "course/options/options.hpp"
#include "course/pictures/diloco_runs.hpp"
#include "yotta/model/text.hpp"

namespace {

using namespace yotta;
using bench::Json;

Json json_of(const DilocoCurve& curve) {
  Json row = {{"name", curve.name}};
  for (const DilocoPoint& point : curve.points) {
    row["step"].push_back(point.step);
    row["megabytes"].push_back(point.megabytes);
    row["seconds"].push_back(point.seconds);
    row["loss"].push_back(point.loss);
  }
  return row;
}

// The ways whose names hold `only`.
Json run_all(const DilocoSizes& sizes, const std::string& text, const std::string& only) {
  Json report = {
      {"benchmark", "diloco_curves"}, {"steps", sizes.steps}, {"text", bench::text_mark(text)}};
  console::Table table({"", "loss", "MB sent", "seconds"});
  for (const DilocoMethod& method : diloco_methods()) {
    if (method.name.find(only) == std::string::npos) continue;
    const DilocoCurve curve = run_diloco(method, sizes, text);
    const DilocoPoint& last = curve.points.back();
    table.row({method.name, fmt::format("{:.3f}", last.loss), fmt::format("{:.1f}", last.megabytes),
               fmt::format("{:.2f}", last.seconds)});
    report["rows"].push_back(json_of(curve));
  }
  if (!report.contains("rows")) fail(Where::current(), "no way has '{}' in its name", only);
  fmt::print("{}", table.text());
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta bench diloco_curves", "Loss against tokens, bytes and time over cities");
  DilocoSizes sizes;
  std::string json, text_file, only;
  options.add("--json", json, "also write the curves to this file");
  options.add("--steps", sizes.steps, "of each run", at_least(50));
  options.add("--batch", sizes.batch, "sequences in a step, of all workers", at_least(4));
  options.add("--only", only, "ways with these words in their name, as streaming; default: all");
  options.add("--text", text_file, "a UTF-8 file or folder; default: this course's own text");
  if (const auto status = options.parse(argc, argv)) return *status;
  try {
    const Text text = text_file.empty() ? course_text(YOTTA_SOURCE_DIR) : read_text(text_file);
    const Json report = run_all(sizes, text.bytes, only);
    return json.empty() ? 0 : bench::write_json(json, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
