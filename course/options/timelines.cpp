#include "course/options/timelines.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "course/options/console.hpp"
#include "course/options/json_object.hpp"
#include "course/options/options.hpp"
#include "yotta/comm/recording/recorder.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/machine/files/cluster_file.hpp"
#include "yotta/machine/pictures/op_profile.hpp"
#include "yotta/machine/pictures/timeline_file.hpp"
#include "yotta/plan/mfu.hpp"

namespace yotta {

struct Timelines::State {
  std::string cluster, file;
  bool mfu = false, profile = false;
  std::optional<Recorder> recorder;
  OpProfile profiled;
};

namespace {

// The fastest matrix product of a run, in FLOP/s.
double fastest(const Trace& trace) {
  double rate = 0;
  for (const std::vector<TraceEvent>& rank : trace.ranks)
    for (const TraceEvent& event : rank)
      if (event.kind == EventKind::op && is_matrix_product(event.name) && event.seconds() > 0)
        rate = std::max(rate, event.flops / event.seconds());
  return rate;
}

// The chip of the machine that timed a run: `named` by --cluster, or known by its name. None if
// that fits no operation of the run: some were faster than the chip can.
std::optional<Chip> chip_of(const std::string& named, const std::string& timed_by,
                            const Trace& trace) {
  for (const std::string& each : {named, timed_by}) try {
      const Cluster cluster = cluster_from(each);
      const MfuMachine machine = mfu_machine(cluster.chip, matrix_dtype(trace));
      const bool fits = waterfall_of(trace, machine, 0).share(Loss::clock) >= -1e-6;
      if (cluster.name == timed_by && fits) return cluster.chip;
    } catch (const Error&) {  // no such machine: it was made for the run
    }
  return std::nullopt;
}

// What the FLOPs of a run are counted against, and that in words.
std::pair<MfuMachine, std::string> machine_of(const std::string& named, const std::string& timed_by,
                                              const Trace& trace, double rate) {
  if (timed_by.empty()) {  // this computer, which all ranks share
    if (rate <= 0)
      rate = 1e9 * measure_matmul_gflops(context().threads, 0.2, 1024, matrix_dtype(trace));
    const auto ranks = static_cast<double>(trace.ranks.size());
    return {{rate / ranks, {}}, "this computer's rate of matmuls, shared by its ranks"};
  }
  const DType dtype = matrix_dtype(trace);
  const std::optional<Chip> chip = chip_of(named, timed_by, trace);
  if (chip)
    return {mfu_machine(*chip, dtype), fmt::format("{}, dense {}", chip->name, name(dtype))};
  return {{fastest(trace), {}},
          "the rate of the fastest matrix product, since the run's machine is its own"};
}

// The steps that are looked at: all but the first, which warms up. Without steps, the whole run.
struct Looked {
  double begin = 0, end = 0;
  int64_t steps = 1;
  std::string about;
};
Looked looked_at(const Trace& trace, const std::optional<TrainedSteps>& trained) {
  if (!trained || trained->steps < 1) return {0, seconds(trace), 1, "the whole run"};
  const std::vector<double> ends = step_ends(trace, trained->steps);
  if (trained->steps == 1) return {0, ends.back(), 1, "one step, and what comes before it"};
  return {ends.front(), ends.back(), trained->steps - 1, "the first step is left out"};
}

// The roof of ops on a chip; of this computer, whose memory is measured and shared by all ranks.
OpRoof roof_of(const MfuMachine& machine, double ranks) {
  if (machine.chip)
    return [chip = *machine.chip](const TraceEvent& op) {
      return std::max(op.flops / peak(chip, op.dtype),
                      static_cast<double>(op.bytes) / chip.bandwidth);
    };
  const double memory = 1e9 * measure_memory_gbps(context().threads, 0.2) / ranks;
  return [memory, peak = machine.peak](const TraceEvent& op) {
    return std::max(op.flops / peak, static_cast<double>(op.bytes) / memory);
  };
}

}  // namespace

Timelines::Timelines() : state_(std::make_unique<State>()) {}
Timelines::~Timelines() = default;

void Timelines::add_options(Options& options, const std::string& machine) {
  state_->cluster = machine;
  options.add("--cluster", state_->cluster,
              "time the ranks on a described machine: h100x8, v5px64, llama3-24k, citiesx8, ideal, "
              "or a JSON file",
              called("MACHINE"));
  options.add("--timeline", state_->file,
              "write when each rank did what: .html (zoom, hover), .svg, .json (Perfetto) or .txt",
              called("FILE"));
  options.add_flag("--mfu", state_->mfu,
                   "where the peak's FLOPs went: a waterfall from 100% to the model's share");
  options.add_flag("--profile", state_->profile,
                   "where the time went, by op: calls, FLOPs, bytes, time, share of the roofline");
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
  if (state_->mfu)
    fail(Where::current(),
         "--mfu reads the timeline of ranks that are threads; leave out --comm, mpirun and srun, "
         "or leave out --mfu");
  if (state_->profile)
    fail(Where::current(),
         "--profile reads the timeline of ranks that are threads; leave out --comm, mpirun and "
         "srun, or leave out --profile");
}

const std::string& Timelines::machine() const { return state_->cluster; }

void Timelines::check() const {
  if (!state_->file.empty()) check_timeline_name(state_->file);
}

void Timelines::start() {
  check();
  if (!state_->cluster.empty())
    state_->recorder.emplace(cluster_from(state_->cluster));
  else if (!state_->file.empty() || state_->mfu || state_->profile)
    state_->recorder.emplace();  // the wall clock
}

void Timelines::finish(const std::optional<TrainedSteps>& trained) {
  if (!state_->recorder) return;
  const Recorder& recorder = *state_->recorder;
  if (recorder.runs() == 0) {
    fmt::print("\nNo ranks ran, so there is no timeline.\n");
    return;
  }
  std::string title = "== Timeline of this computer";
  if (!recorder.machine().empty()) title = fmt::format("== Timeline on {}", recorder.machine());
  if (recorder.runs() > 1) title += fmt::format(" (the largest of {} runs)", recorder.runs());
  if (!state_->cluster.empty() || !state_->file.empty()) show_timeline(recorder.trace(), title);
  if (state_->mfu) show_mfu(recorder.trace(), recorder.machine(), trained);
  if (state_->profile) show_profile(recorder.trace(), recorder.machine(), trained);
}

void Timelines::show(const Trace& trace, const std::string& title,
                     const TrainedSteps& trained) const {
  show_timeline(trace, title);
  if (state_->mfu) show_mfu(trace, cluster_from(state_->cluster).name, trained);
  if (state_->profile) show_profile(trace, cluster_from(state_->cluster).name, trained);
}

void Timelines::show_mfu(const Trace& trace, const std::string& timed_by,
                         const std::optional<TrainedSteps>& trained) const {
  const double computed = matrix_flops(trace);
  if (computed == 0) return fmt::print("\nNo matrix products ran, so there is no MFU.\n");
  const auto [machine, against] =
      machine_of(state_->cluster, timed_by, trace, trained ? trained->rate : 0);
  fmt::print("\n{}\ncounted against {}\n",
             console::paint(console::Color::bold, "== Where the peak went"), against);
  if (!trained || trained->steps < 1) {
    fmt::print("{}all matrix products count here, as no model's formula is known: this is HFU\n",
               waterfall_text(waterfall_of(trace, machine, computed)));
    return;
  }
  const Looked looked = looked_at(trace, trained);
  const Waterfall fall =
      waterfall_of(trace, machine, static_cast<double>(looked.steps) * trained->needed,
                   looked.begin, looked.end);
  fmt::print("{}{}; with the masked half of attention and all of 6 N: {:.1f}%\n",
             waterfall_text(fall), looked.about,
             100 * fall.mfu() * trained->with_masked / trained->needed);
}

void Timelines::show_profile(const Trace& trace, const std::string& timed_by,
                             const std::optional<TrainedSteps>& trained) const {
  const auto [machine, against] =
      machine_of(state_->cluster, timed_by, trace, trained ? trained->rate : 0);
  const Looked looked = looked_at(trace, trained);
  const OpRoof roof = roof_of(machine, static_cast<double>(trace.ranks.size()));
  state_->profiled = op_profile(trace, looked.begin, looked.end, looked.steps, roof);
  fmt::print("\n{}\n{}of a step on one rank, by the roof of {}; {}\n",
             console::paint(console::Color::bold, "== Where the time went"),
             op_profile_text(state_->profiled), against, looked.about);
}

void Timelines::set_profile(JsonObject& json) const {
  const OpProfile& shown = state_->profiled;
  if (shown.rows.empty()) return;
  std::vector<JsonObject> rows;
  for (const OpRow& row : shown.rows) {
    JsonObject& it = rows.emplace_back();
    it.set("op", std::string(row.op));
    it.set("pass", std::string(name(row.phase)));
    it.set("calls", row.calls);
    it.set("flops", row.flops);
    it.set("bytes", row.bytes);
    it.set("seconds", row.seconds);
    it.set("roof_seconds", row.roof_seconds);
  }
  JsonObject profile;
  profile.set("steps", shown.steps);
  profile.set("ranks", int64_t{shown.ranks});
  profile.set("seconds", shown.seconds);
  profile.set("wait_seconds", shown.wait_seconds);
  profile.set("between_seconds", shown.between_seconds);
  profile.set("rows", rows);
  json.set("profile", profile);
}

std::string book_from(const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path site = fs::path(YOTTA_SOURCE_DIR) / "build/book/site";
  std::error_code no;
  if (!fs::exists(site / "index.html", no)) return "";
  return fs::relative(site, fs::absolute(file).parent_path(), no).generic_string();
}

void Timelines::show_timeline(const Trace& trace, const std::string& title) const {
  fmt::print("\n{}\n{}", console::paint(console::Color::bold, title),
             timeline_text(make_timeline(trace, 4), 72, console::colored()));
  fmt::print("{}", waits_text(trace));
  if (state_->file.empty()) return;
  write_timeline(state_->file, trace, book_from(state_->file));
  fmt::print("written to {}\n", state_->file);
}

}  // namespace yotta
