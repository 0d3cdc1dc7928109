// --comm, as lessons and train have it: what the ranks are.
//
//     ./yotta lesson 13                        ranks are threads
//     ./yotta lesson 13 -- --comm mpi          starts mpirun, which starts this program once for each rank
//     ./yotta lesson 13 -- --comm tcp          the same without MPI: starts the processes itself
//     mpirun -n 4 .../lesson_13_ddp            ranks are the processes; so with srun and torchrun, and with GPUs by NCCL
//
//     CommChoice comm;                         from here on only process 0 is heard
//     comm.add_option(app);                    before the command line is parsed
//     comm.start(argc, argv, ranks);           after: becomes mpirun or a launcher, joins the others, or does nothing
//     ... the program ...
//     comm.finish(error);                      waits for the others
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace yotta {

// How many ranks a program is to have. Under mpirun or torchrun, as many as there are processes.
struct RanksWanted {
  int64_t count = 1;
  const char* given = nullptr;  // the option that named the count: "--ranks"; null: none did
  int64_t least = 1, most = 1 << 20;
};

class CommChoice {
 public:
  CommChoice();
  ~CommChoice();
  void add_option(CLI::App& app);
  // Does somebody who is not asked for threads start several processes, or has one done so?
  bool wants_processes() const;
  // Has somebody started this process as one of several: mpirun, srun, torchrun, this program itself?
  bool is_one_of_many() const;
  // Returns the number of ranks. From here on run_ranks has its ranks where they belong. Errors: no MPI; a
  // number of ranks that nobody has started; processes that do not come.
  int64_t start(int argc, char** argv, const RanksWanted& ranks);
  // Has each process a GPU, and NCCL between them? Known after start().
  bool has_gpus() const;
  // Is this the process that writes files?
  bool is_first() const;
  // The program's end, with the error that it ends with, or none. Returns the exit status.
  int finish(const std::string& error);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta
