// The verb `learn`: shows the task, grades the student's file each time it is saved, and waits for
// keys. What is shown and what a key does is in learn_state.hpp and learn_screen.hpp; here are the
// terminal, the files and the grader's process.
#pragma once

#include <string>

namespace runner {

struct LearnOptions {
  std::string name;    // the exercise to begin with; empty: where the student was
  bool poll = false;   // look at the file twice a second instead of waiting for the system's events
  bool watch = false;  // without a terminal: go on after the first verdict
  std::string variant = {};  // the key of other numbers and sentences; empty: none
};

// Without a terminal: prints the task and the verdict, and ends with the status of `check`; with
// `watch` it goes on until it is ended, a verdict for each save.
int learn(const LearnOptions& options);

}  // namespace runner
