#include "course/shared/timelines.hpp"

#include <CLI/CLI.hpp>

#include "course/shared/console.hpp"
#include "yotta/comm/recorder.hpp"
#include "yotta/machine/cluster_file.hpp"
#include "yotta/machine/timeline_file.hpp"

namespace yotta {

struct Timelines::State {
  std::string cluster, file;
  std::optional<Recorder> recorder;
};

Timelines::Timelines() : state_(std::make_unique<State>()) {}
Timelines::~Timelines() = default;

void Timelines::add_options(CLI::App& app) {
  app.add_option(
         "--cluster", state_->cluster,
         "time the ranks on a described machine: h100x8, v5px64, llama3-24k, ideal, or a JSON file")
      ->type_name("MACHINE");
  app.add_option(
         "--timeline", state_->file,
         "write when each rank did what: .html (zoom, hover), .svg, .json (Perfetto) or .txt")
      ->type_name("FILE");
}

void Timelines::start() {
  if (!state_->file.empty()) check_timeline_name(state_->file);
  if (!state_->cluster.empty())
    state_->recorder.emplace(cluster_from(state_->cluster));
  else if (!state_->file.empty())
    state_->recorder.emplace();  // the wall clock
}

void Timelines::finish() {
  if (!state_->recorder) return;
  const Recorder& recorder = *state_->recorder;
  if (recorder.runs() == 0) {
    fmt::print("\nNo ranks ran, so there is no timeline.\n");
    return;
  }
  const bool is_virtual = !state_->cluster.empty();
  fmt::print("\n{}\n", console::paint(console::Color::bold,
                                      is_virtual ? fmt::format("== Timeline on {}", state_->cluster)
                                                 : std::string("== Timeline of this computer")));
  if (recorder.runs() > 1) fmt::print("(the largest of {} runs)\n", recorder.runs());
  fmt::print("{}", timeline_text(make_timeline(recorder.trace(), 4), 72, console::colored()));
  if (state_->file.empty()) return;
  write_timeline(state_->file, recorder.trace());
  fmt::print("written to {}\n", state_->file);
}

}  // namespace yotta
