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

#if YOTTA_BODIES_OF(transports)
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "yotta/comm/processes/rank_words.hpp"
#endif  // YOTTA_BODIES

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
YOTTA_API std::string make_job_key();
// How to make one by hand.
inline constexpr const char* how_to_make_a_key =
    "export YOTTA_JOB_KEY=$(openssl rand -hex 32), the same for all ranks";
// Could it be a key? (64 hexadecimal digits.)
inline bool is_job_key(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
}

// Empty if the environment does not say what this process's rank is, or where rank 0 is. Errors: a
// variable that is not a number.
YOTTA_API std::optional<TcpEnvironment> find_tcp_environment(
    const Environment& get = own_environment, Where where = Where::current());

// Starts n processes of a program, whose path is program[0], and waits for all. If one fails the
// others are told, and end by themselves; if this process ends, all are killed. A process that has
// joined the job and does not say that it ended well has failed, whatever its status. A signal that
// `seen` tells of is passed on to all, once. Errors: no program of that name.
YOTTA_API LaunchResult start_processes(int n, std::vector<std::string> program,
                                       SignalSeen seen = nullptr, Where where = Where::current());

#if YOTTA_BODIES_OF(transports)

std::optional<TcpEnvironment> find_tcp_environment(const Environment& get, Where where) {
  const auto text = [&](const char* name) {
    const char* const value = get(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto number = [&](const char* name, int default_value, int smallest, int largest) {
    if (get(name) == nullptr) return default_value;
    const std::string digits = text(name);
    int value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || *end != '\0' || value < smallest || value > largest)
      fail(where, "{} is \"{}\"; it should be a number from {} to {}", name, digits, smallest,
           largest);
    return value;
  };
  TcpEnvironment self;
  self.file = text("YOTTA_RENDEZVOUS_FILE");
  self.rank0.host = text("MASTER_ADDR");
  if (self.file.empty() && self.rank0.host.empty()) return {};
  if (const std::optional<LaunchEnvironment> other = find_launch_environment(get)) {
    self.rank = other->rank;
    self.size = other->size;
  } else if (get("RANK") == nullptr || get("WORLD_SIZE") == nullptr) {
    return {};
  }
  constexpr int most_ranks = 1 << 20;
  self.rank = number("RANK", self.rank, 0, most_ranks);
  self.size = number("WORLD_SIZE", self.size, 1, most_ranks);
  self.rank0.port = number("MASTER_PORT", 29500, 1, 65535);
  if (text("TORCHELASTIC_USE_AGENT_STORE") == "True" && self.rank0.port < 65535) ++self.rank0.port;
  self.seconds = number("YOTTA_RENDEZVOUS_SECONDS", 60, 1, 1'000'000);
  self.key = text("YOTTA_JOB_KEY");
  if (!self.key.empty() && !is_job_key(self.key))
    fail(where,
         "YOTTA_JOB_KEY has {} characters; it should be 64 hexadecimal digits. Make one with: {}",
         self.key.size(), how_to_make_a_key);
  self.one_machine = number("LOCAL_WORLD_SIZE", 0, 0, most_ranks) == self.size ||
                     self.rank0.host == "localhost" || self.rank0.host.starts_with("127.") ||
                     self.rank0.host == "::1";
  if (self.rank == 0 && !text("YOTTA_LISTEN_FD").empty())
    self.listen_fd = number("YOTTA_LISTEN_FD", -1, 0, most_ranks);
  return self;
}

std::string make_job_key() {
  unsigned char bytes[32];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    fail(Where::current(), "the kernel has no random numbers for a key: {}", std::strerror(errno));
  std::string key;
  for (const unsigned char byte : bytes) key += fmt::format("{:02x}", byte);
  return key;
}

// A free port of this machine, which no other machine can reach, and the socket that listens there.
struct LocalPort {
  int fd = -1, port = 0;

  explicit LocalPort(Where where) : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (fd < 0 || bind(fd, any, length) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, any, &length) != 0) {
      const int problem = errno;
      if (fd >= 0) close(fd);
      fail(where, "cannot listen at a port of this machine: {}", std::strerror(problem));
    }
    port = ntohs(address.sin_port);
  }
  LocalPort(const LocalPort&) = delete;
  LocalPort& operator=(const LocalPort&) = delete;
  ~LocalPort() { close(fd); }
};

// The environment of rank `rank`: this process's own, with the variables of a rank.
inline std::vector<std::string> environment_of(int rank, int n, const LocalPort& port,
                                               const std::string& key, const std::string& words) {
  const std::vector<std::string> variables = {
      fmt::format("RANK={}", rank),
      fmt::format("LOCAL_RANK={}", rank),
      fmt::format("WORLD_SIZE={}", n),
      fmt::format("LOCAL_WORLD_SIZE={}", n),
      fmt::format("YOTTA_LAUNCHER={}", getpid()),
      "YOTTA_RENDEZVOUS_FILE=",
      "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", port.port),
      "TORCHELASTIC_USE_AGENT_STORE=",
      "YOTTA_JOB_KEY=" + key,
      fmt::format("YOTTA_LISTEN_FD={}", rank == 0 ? std::to_string(port.fd) : ""),
      fmt::format("{}={}", words_variable, words)};
  return own_environment_with(variables);
}

LaunchResult start_processes(int n, std::vector<std::string> program, SignalSeen seen,
                             Where where) {
  std::optional<LocalPort> port(where);
  const std::string key = make_job_key();
  RankWords words(n);
  const ChildSignals signals;
  std::optional<HeldSignals> held(seen != nullptr);
  std::vector<pid_t> processes;
  int problem = 0;
  for (int rank = 0; rank < n && problem == 0; ++rank) {
    std::vector<std::string> environment = environment_of(rank, n, *port, key, words.name());
    const pid_t process = start_process(program, environment, SIGKILL, rank == 0 ? port->fd : -1);
    if (process > 0) processes.push_back(process);
    problem = process < 0 ? -process : 0;
  }
  port.reset();  // from here on it is rank 0's alone
  if (problem != 0)
    for (const pid_t process : processes) kill(process, SIGKILL);
  held.reset();
  LaunchResult result = JobWatch(std::move(processes), words, 20, seen).wait();
  if (problem != 0) fail(where, "cannot start {}: {}", program[0], std::strerror(problem));
  return result;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
