// Other programs, run with their words as given: no shell in between.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace runner {

using Command = std::vector<std::string>;

// Runs a command with this program's own input and output; returns its exit status, 128 + n after
// signal n, and 127 when it could not be started.
int run(const Command& command);

// Becomes the command: the runner's last act. Returns only when it could not be started.
int become(const Command& command);

// How a program ended that ran under limits.
struct Ending {
  int status = 0;  // exit status
  int signal = 0;  // or the signal that ended it
  bool too_late = false;
  std::string output = "";   // standard output and error, at most the last bytes
  std::string stopped = "";  // why it was ended before its time: "it held more than 2 GB of memory"
  bool well() const { return status == 0 && signal == 0 && !too_late && stopped.empty(); }
};

struct Watched {
  double seconds = 0;
  long most_output = 64 * 1024;
  std::function<void()> before = {};  // in the child, just before the command takes its place
  std::string output_file = "";       // others may read there what it says, while it runs
  // Every few milliseconds, with the child's id: why it must end now; empty: it may go on.
  std::function<std::string(int)> watch = {};
};
// Runs a command in a session of its own. After its seconds, when `watch` says so, or when we are
// told to end (Ctrl-C), it is killed with all processes of its group.
Ending run_watched(const Command& command, const Watched& watched);
Ending run_limited(const Command& command, double seconds, long most_output = 64 * 1024);

}  // namespace runner
