// Runs that a scheduler cuts off: SIGUSR1 (Slurm's --signal=USR1@120) and SIGTERM ask the run to
// stop after its step, and to save.
#pragma once

#include <string>

namespace yotta {

// From now on these signals are noted, and end the process no more: nor do they once the run is
// over, while it prints. Called at the start of main, before any thread; takes those that have
// waited since the program was started (held_start.cpp, HeldSignals).
void note_stop_signals();

// The signal that has come: SIGUSR1 or SIGTERM; 0: none.
int stop_signal_seen();

// Under Slurm: asks it to start this job again (scontrol requeue). Returns what was done, in words;
// empty without Slurm.
std::string requeue_by_slurm();

}  // namespace yotta
