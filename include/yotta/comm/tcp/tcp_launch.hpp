// How processes that are ranks by TCP (tcp_ranks.hpp) are started and configured, and how each
// learns its rank.
//
//     start_processes(4, {"/path/program", "--steps", "20"})
//                                starts four processes on this machine, as torchrun does
//     find_tcp_environment()     in each of them: its rank, and where rank 0 is
//
// What a process reads from its environment:
//
//   RANK=2 WORLD_SIZE=4 MASTER_ADDR=node1 MASTER_PORT=29500 YOTTA_JOB_KEY=64-hexadecimal-digits
//       torchrun's names, and the key of the job; rank 0 runs on node1
//   RANK=2 WORLD_SIZE=4 YOTTA_RENDEZVOUS_FILE=/shared/job-17
//       no address is known: rank 0 writes its own there, with a key that it makes
//   srun, mpirun: their own variables in place of RANK and WORLD_SIZE
//   torchrun itself (it sets TORCHELASTIC_USE_AGENT_STORE) listens at MASTER_PORT: then rank 0 uses
//       the next port
//
// YOTTA_RENDEZVOUS_SECONDS says how long all wait for each other (60).
// LOCAL_WORLD_SIZE equal to WORLD_SIZE, or a MASTER_ADDR of this machine alone (localhost), says
// that the job runs on one machine: then nothing of it can be reached from another.
//
// The key is the job's secret: what does not have it neither joins nor reads (tcp_sockets.hpp).
// start_processes makes one for each start, and rank 0's port with it, so there is no file that
// could stay behind. It watches its processes: when one dies the others hear of it at once
// (rank_words.hpp), also before they have found each other; and no process outlives its starter.
// References: PyTorch, torch.distributed, "Environment variable initialization", "Shared
// file-system initialization".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yotta/comm/processes/job_start.hpp"
#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/core/error.hpp"

namespace yotta {

// Of the transport (tcp_transport.hpp).
struct TcpOptions {
  int64_t eager_bytes = 64 * 1024;  // longer messages ask first; -1: all do
  double patience = 1;              // seconds after which a waiting rank reports that it waits
  // Compares the calls of collectives as they start, for one control message per rank. Without it,
  // calls that differ are noticed when ranks wait too long.
#ifdef NDEBUG
  bool compare_calls = false;
#else
  bool compare_calls = true;
#endif
};

struct TcpAddress {
  std::string host;  // a name, or numbers
  int port = 0;

  std::string text() const { return host + ":" + std::to_string(port); }
};

// The rank of a process, and how it reaches rank 0.
struct TcpEnvironment {
  int rank = 0, size = 1;
  TcpAddress rank0 = {};  // where rank 0 listens ...
  std::string file = {};  // ... or the file that says where
  double seconds = 60;    // how long all wait for each other
  std::string key = {};   // the job's secret, 64 hexadecimal digits; empty: rank 0 makes one
  bool one_machine = false;
  int listen_fd = -1;  // the socket at rank 0's port that start_processes has opened; -1: none
};

// A new secret for a job. Errors: the kernel has no random numbers.
std::string make_job_key();
// How to make one by hand.
inline constexpr const char* how_to_make_a_key =
    "export YOTTA_JOB_KEY=$(openssl rand -hex 32), the same for all ranks";
// Could it be a key? (64 hexadecimal digits.)
inline bool is_job_key(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
}

// Empty if the environment does not say what this process's rank is, or where rank 0 is. Errors: a
// variable that is not a number.
std::optional<TcpEnvironment> find_tcp_environment(const Environment& get = own_environment,
                                                   Where where = Where::current());

// Starts n processes of a program, whose path is program[0], and waits for all. If one fails the
// others are told, and end by themselves; if this process ends, all are killed. A process that has
// joined the job and does not say that it ended well has failed, whatever its status. A signal that
// `seen` tells of is passed on to all, once. Errors: no program of that name.
LaunchResult start_processes(int n, std::vector<std::string> program, SignalSeen seen = nullptr,
                             Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/tcp/impl/tcp_launch.ipp"
#endif
