// Runs that a scheduler cuts off: SIGUSR1 (Slurm's --signal=USR1@120) and SIGTERM ask the run to
// stop after its step, and to save.
#pragma once

#include <string>

namespace yotta {

// Notes these signals for as long as it lives; they end the process no more. Made at the start of
// main, before any thread: a signal that comes before the first step counts too.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that has come: SIGUSR1 or SIGTERM; 0: none.
  static int seen();
};

// Under Slurm: asks it to start this job again (scontrol requeue). Returns what was done, in words;
// empty without Slurm.
std::string requeue_by_slurm();

}  // namespace yotta
