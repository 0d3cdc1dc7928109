// --cluster and --timeline, as lessons, train and tour have them.
//
//     Timelines timelines;
//     timelines.add_options(options);    before the command line is parsed
//     timelines.start();                 after; from here on every run_ranks is timed
//     ...
//     timelines.finish();            shows the largest run, and writes it
#pragma once

#include <memory>
#include <string>

namespace yotta {

class Options;
struct Trace;

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
  void finish();
  // Prints a trace under this title and, if --timeline says so, writes it.
  void show(const Trace& trace, const std::string& title) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta
