// Processes of a run: how to start several, and which of them still live. (Who started this one:
// launch_environment.hpp.)
//
// ProcessWatch: has another process of this host ended?
//
//     rank 2 is killed  ──►  its pidfd becomes readable  ──►  rank 0, when it looks:
//                                                "rank 2: process 4711 on node7 has ended"
//
// A rank that is killed, or leaves by exit(), tells no other rank. mpirun often does (Open MPI
// names the rank), but not always, and MPI itself may wait forever. A pidfd is bound to the
// process, not to its number, so another process that gets the same number later is never mistaken
// for it. Where the kernel has no pidfd, or the other process lives in another container, nothing
// is watched.
//
// ParentWatchdog: does the mpirun that started this process still live?
//
//    shell ── mpirun ── sh ── this process  the launcher is the nearest ancestor that is no process
//             rank:     2 of 4   2 of 4     of the run: here mpirun; on another host its proxy;
//                                           under Slurm slurmstepd
//
// mpirun ends all processes of a run as soon as one has failed. If mpirun itself is killed nothing
// ends them: they go on computing, or wait forever inside MPI_Finalize, which needs it. So a thread
// looks, twenty times a second.
//
// References: mpirun(1) of Open MPI 4.1; pidfd_open(2), Linux 5.3; proc(5), /proc/pid/environ and
// /proc/pid/stat.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yotta/comm/processes/launch_environment.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

// --- starting mpirun ---

// The MPIs whose mpirun is known, by what MPI_Get_library_version says.
enum class MpiKind { open_mpi, mpich, other };
MpiKind mpi_kind(std::string_view library);

// The names of an MPI's launcher; the name that no other MPI uses comes first. (Debian has several
// MPIs side by side.)
std::vector<std::string> mpirun_names(MpiKind kind);

// The first of these programs that lies in a folder of `path` (PATH's value); empty if none does.
std::string find_program(const std::vector<std::string>& names, std::string_view path);

struct MpirunCall {
  std::vector<std::string> words;  // mpirun and its arguments
  // Environment variables, unless they are set already.
  std::vector<std::pair<std::string, std::string>> setting;
};

// Starts `program` on n processes of this machine, also with fewer cores than processes, and as
// root. They are bound to no core (four bound to two would share them badly), and yield while they
// wait.
MpirunCall mpirun_call(MpiKind kind, const std::string& mpirun, int n,
                       const std::vector<std::string>& program);

// What to install, for a program that was built without MPI.
inline constexpr const char* no_mpi =
    "this program was built without MPI. Install it (Debian, Ubuntu: apt-get install "
    "libopenmpi-dev "
    "openmpi-bin) and build again (./yotta clean)";

// --- which processes still live ---

// Where a process is. Processes of the same host and space see each other by number.
struct ProcessAddress {
  std::array<char, 64> host = {};  // the name of the machine
  std::array<char, 64> space =
      {};  // of process numbers: each container, and each boot of a machine, has its own
  int pid = 0;

  bool sees(const ProcessAddress& other) const;
};

// The address of the calling process.
ProcessAddress own_address();

// "rank 2 has failed: its process, 4711 on node7, ended without reporting an error: was it killed?"
std::string describe_lost_process(int rank, const ProcessAddress& address);

class ProcessWatch {
 public:
  ProcessWatch();
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Watches a process under this name from now on, if it can be watched.
  void add(int name, const ProcessAddress& address);
  // The name of a process that has ended; -1: none has. Never blocks.
  int ended();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The environment that a process was started with; empty if it has ended or is another user's.
Environment environment_of_process(int process);
// 0: the process has ended.
int parent_of_process(int process);
// The process that has started this one as part of a run; 0: there is none, or it cannot be found.
int find_launcher();

class ParentWatchdog {
 public:
  // A thread calls on_end(process) when this process has ended. 0: there is nothing to watch.
  ParentWatchdog(int process, std::function<void(int)> on_end);
  ~ParentWatchdog();
  ParentWatchdog(const ParentWatchdog&) = delete;
  ParentWatchdog& operator=(const ParentWatchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/processes/impl/process_supervision.ipp"
#endif
