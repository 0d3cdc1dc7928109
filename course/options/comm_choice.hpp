// --comm, as lessons and train have it: what the ranks are.
//
//     ./yotta lesson 13                        ranks are threads
//     ./yotta lesson 13 -- --comm mpi          starts mpirun, which starts this program once per
//                                              rank
//     ./yotta lesson 13 -- --comm processes    the same without MPI, on this machine: starts the
//                                              processes itself
//     mpirun -n 4 .../lesson_13_ddp            ranks are the processes; also with srun; with GPUs
//                                              by NCCL
//
//     CommChoice comm;                         from here on only process 0 prints
//     comm.add_option(options);                before the command line is parsed
//     comm.start(argc, argv, ranks);           after it: becomes mpirun or a launcher, joins the
//                                              other processes, or does nothing
//     ... the program ...
//     comm.finish(error);                      waits for the others
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "yotta/comm/epochs.hpp"

namespace yotta {

class Options;

// How many ranks a program should have. Under mpirun or srun it has as many as there are
// processes.
struct RanksWanted {
  int64_t count = 1;
  const char* given = nullptr;  // the option that gave the count, "--ranks"; null: none
  int64_t least = 1, most = 1 << 20;
  EpochRule epochs = {};  // the job goes on when ranks die, by this rule; empty: it ends
  int spares = 0;         // processes that are ready to take a place
  double patience = 20;   // seconds until a process that does not come to an epoch is killed
  // Of epochs, in the process that starts the others: while all wait for these places; and when
  // the job has failed, with its status and (if it has any) words.
  std::function<void(const std::vector<int>& missing)> all_wait = {};
  std::function<void(int status, const std::string& text)> failed = {};
  int (*signal_seen)() = nullptr;  // what it returns is passed on to the processes; 0: nothing yet
};

class CommChoice {
 public:
  CommChoice();
  ~CommChoice();
  void add_option(Options& options);
  // Are the ranks processes: asked for, or started already?
  bool wants_processes() const;
  // Was this process started as one of several, by mpirun, srun or this program itself?
  bool is_one_of_many() const;
  // Returns the number of ranks. From here on run_ranks runs them on threads or processes, as
  // chosen. Errors: no MPI; a number of ranks other than that of the processes; processes that do
  // not come.
  int64_t start(int argc, char** argv, const RanksWanted& ranks);
  // Does each process have a GPU, with NCCL between them? Known after start().
  bool has_gpus() const;
  // Is this the process that writes files?
  bool is_first() const;
  // The program's end, with its error or (empty) none. Returns the exit status.
  int finish(const std::string& error);

 private:
  int64_t alone(const RanksWanted& ranks) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta
