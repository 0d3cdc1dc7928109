#include "course/shared/timelines.hpp"

#include <fmt/core.h>

#include <optional>

#include "course/shared/console.hpp"
#include "course/shared/options.hpp"
#include "yotta/comm/recording/recorder.hpp"
#include "yotta/machine/files/cluster_file.hpp"
#include "yotta/machine/pictures/timeline_file.hpp"

namespace yotta {

struct Timelines::State {
  std::string cluster, file;
  std::optional<Recorder> recorder;
};

Timelines::Timelines() : state_(std::make_unique<State>()) {}
Timelines::~Timelines() = default;

void Timelines::add_options(Options& options, const std::string& machine) {
  state_->cluster = machine;
  options.add(
      "--cluster", state_->cluster,
      "time the ranks on a described machine: h100x8, v5px64, llama3-24k, ideal, or a JSON file",
      called("MACHINE"));
  options.add("--timeline", state_->file,
              "write when each rank did what: .html (zoom, hover), .svg, .json (Perfetto) or .txt",
              called("FILE"));
}

void Timelines::expect_none() const {
  if (!state_->cluster.empty())
    fail(Where::current(),
         "--cluster times ranks on a clock that they share, as threads; leave out --comm, mpirun "
         "and srun, or leave out --cluster");
  if (!state_->file.empty())
    fail(
        Where::current(),
        "--timeline is for ranks that are threads; leave out --comm, mpirun and srun, or leave out "
        "--timeline");
}

const std::string& Timelines::machine() const { return state_->cluster; }

void Timelines::check() const {
  if (!state_->file.empty()) check_timeline_name(state_->file);
}

void Timelines::start() {
  check();
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
  std::string title = "== Timeline of this computer";
  if (!recorder.machine().empty()) title = fmt::format("== Timeline on {}", recorder.machine());
  if (recorder.runs() > 1) title += fmt::format(" (the largest of {} runs)", recorder.runs());
  show(recorder.trace(), title);
}

void Timelines::show(const Trace& trace, const std::string& title) const {
  fmt::print("\n{}\n{}", console::paint(console::Color::bold, title),
             timeline_text(make_timeline(trace, 4), 72, console::colored()));
  fmt::print("{}", waits_text(trace));
  if (state_->file.empty()) return;
  write_timeline(state_->file, trace);
  fmt::print("written to {}\n", state_->file);
}

}  // namespace yotta
