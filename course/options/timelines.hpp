// --cluster, --timeline, --mfu and --profile, as lessons, train and tour have them.
//
//     Timelines timelines;
//     timelines.add_options(options);    before the command line is parsed
//     timelines.start();                 after; from here on every run_ranks is timed
//     ...
//     timelines.finish();            shows the largest run, and writes it
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace yotta {

class JsonObject;
class Options;
struct Trace;

// The training steps that a run consists of, for --mfu and --profile.
struct TrainedSteps {
  int64_t steps = 0;
  double needed = 0;       // model FLOPs of a step, attention's masked half left out
  double with_masked = 0;  // as PaLM counts them: 6 N and all scores
  double rate = 0;         // of matmuls on this computer, FLOP/s, if it was measured
};

// Where the book lies that `./yotta book` has made, seen from a file; empty if it has not.
std::string book_from(const std::string& file);

class Timelines {
 public:
  Timelines();
  ~Timelines();
  // machine: the default of --cluster; empty: the wall clock.
  void add_options(Options& options, const std::string& machine = "");
  // For runs whose ranks are not threads. Errors: a timeline or a machine was asked for.
  void expect_none() const;
  // The machine's name or file; empty if none was given.
  const std::string& machine() const;
  // Call it before a long run. Errors: the timeline's name says no kind, or it cannot be written.
  void check() const;
  // Errors: as check(); no such machine.
  void start();
  // Shows and writes what was asked for. Without steps --mfu counts all matrix products, and
  // --profile all ops.
  void finish(const std::optional<TrainedSteps>& trained = {});
  // The same for a trace that was timed on the machine of --cluster.
  void show(const Trace& trace, const std::string& title, const TrainedSteps& trained) const;

  // Adds what --profile has shown, as "profile"; nothing if it was not given.
  void set_profile(JsonObject& json) const;

 private:
  void show_timeline(const Trace& trace, const std::string& title) const;
  void show_mfu(const Trace& trace, const std::string& timed_by,
                const std::optional<TrainedSteps>& trained) const;
  void show_profile(const Trace& trace, const std::string& timed_by,
                    const std::optional<TrainedSteps>& trained) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta
