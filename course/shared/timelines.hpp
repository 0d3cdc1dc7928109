// --cluster and --timeline, as lessons and train have them.
//
//     Timelines timelines;
//     timelines.add_options(app);    before the command line is parsed
//     timelines.start();             after; from here on every run_ranks is timed
//     ...
//     timelines.finish();            shows the largest run, and writes it
#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace yotta {

class Timelines {
 public:
  Timelines();
  ~Timelines();
  void add_options(CLI::App& app);
  // Errors: no such machine, a file name that does not say which kind of timeline is wanted.
  void start();
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta
