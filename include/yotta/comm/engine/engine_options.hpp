// EngineOptions: how long a rank waits, and what is watched while it does.
#pragma once

#include <functional>

namespace yotta {

struct EngineOptions {
  bool buffered_sends = true;   // send() copies and returns; false: it waits for the receiver
  bool check_buffers = false;   // watch the buffers of operations in flight (buffer_guard.hpp)
  double timeout = 600;         // seconds that one call may wait
  std::function<double()> now;  // the clock for it, in seconds; empty: the computer's
};

}  // namespace yotta
