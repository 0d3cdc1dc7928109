// The command line of what students use, which the program `student` has alone and `runner` beside
// the tools of authors and instructors. So a student's first build is of what they need.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace runner {

// A lesson, a benchmark or an exercise by its name.
struct Named {
  std::string name;
  std::string json;
};

// Reads the command line and does what it says; returns an exit status. `add_others` adds verbs of
// other programs, whose callbacks set the status.
int run_command_line(int argc, char** argv,
                     const std::function<void(CLI::App& app, int& result)>& add_others = {});

}  // namespace runner
