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
  // `machine`: what --cluster is if nobody says; empty: the wall clock.
  void add_options(Options& options, const std::string& machine = "");
  // Errors: a timeline was asked for, and the ranks are no threads.
  void expect_none() const;
  // The machine's name or file. Errors: none was given.
  const std::string& machine() const;
  // Errors: a timeline of no kind, or that cannot be written; so no long run is for nothing.
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
