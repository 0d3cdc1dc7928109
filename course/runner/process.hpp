// Other programs, run with their words as given: no shell in between.
#pragma once

#include <string>
#include <vector>

namespace runner {

using Command = std::vector<std::string>;

// Runs a command with this program's own input and output; returns its exit status, 128 + n after signal n,
// and 127 when it could not be started.
int run(const Command& command);

// Becomes the command: the runner's last act. Returns only when it could not be started.
int become(const Command& command);

}  // namespace runner
