// Programs that run side by side, a few at a time, each with a time limit. Whoever is stopped
// (Ctrl-C) stops them first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner/process.hpp"

namespace runner {

struct PoolJob {
  Command command;
  std::string log;  // the file that gets its output
  double seconds = 0;
  // When it has ended by itself with this exit status, or -1: by a signal, or too late.
  std::function<void(int status)> ended;
};

// At most `most` at once, in their order. False: a signal told us to stop, and what had not ended
// has not called `ended`.
bool run_pool(const std::vector<PoolJob>& jobs, int most);

}  // namespace runner
