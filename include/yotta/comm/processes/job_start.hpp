// Starting a job on this machine, and how it has ended.
//
//     start_process     one process, which ends with the thread that has started it
//     start_mpirun      the processes are mpirun's: it says how they have ended, and each rank says
//                       it too (rank_words.hpp)
//
// A status of 0 alone proves nothing: MPICH's mpirun has reported success for a rank that had left
// before MPI_Finalize, and a rank that calls exit(0) in the middle of a run has status 0.
// What is started is killed by the kernel when the thread that started it ends, for whatever reason
// (prctl(2), PR_SET_PDEATHSIG): no job outlives its starter.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/core/error.hpp"

namespace yotta {

// How the processes of a launch have ended.
struct LaunchResult {
  // Of the lowest rank that failed; 128 and more: it was killed by signal status - 128.
  int status = 0;
  std::string text = {};  // "rank 2 was killed: Killed", one line for each that was
};

// Starts one process with these words and settings; it gets a signal when the thread that has
// started it ends, and keeps the descriptor `kept` (-1: none). Returns its number, or minus the
// error.
pid_t start_process(std::vector<std::string> program, std::vector<std::string> environment,
                    int signal_at_end, int kept = -1);

// This process's environment, with these settings in place of its own of the same names.
std::vector<std::string> own_environment_with(const std::vector<std::string>& settings);

// A process that ignores SIGCHLD cannot learn how others end; in its scope this one does not.
class ChildSignals {
 public:
  ChildSignals();
  ~ChildSignals();
  ChildSignals(const ChildSignals&) = delete;
  ChildSignals& operator=(const ChildSignals&) = delete;

 private:
  struct sigaction before_ = {};
};

// A signal that has come to this process and is to be passed on to those that it has started; 0:
// none. A null SignalSeen: nothing is passed on.
using SignalSeen = int (*)();

// In its scope SIGTERM and SIGUSR1 wait, and in the programs that are started in it: until those
// have handlers of their own, and take them. So none is lost in between.
class HeldSignals {
 public:
  explicit HeldSignals(bool holds);
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_ = {};
};

// Starts mpirun with n ranks and waits for its end. Its status counts, unless it is 0 and a rank
// has not said that it ended well: then the job has failed, and the rank is named. Errors: no such
// program.
LaunchResult start_mpirun(const MpirunCall& call, int n, SignalSeen seen = nullptr,
                          Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/processes/impl/job_start.ipp"
#endif
