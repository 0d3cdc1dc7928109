// How processes that are ranks by TCP (tcp_ranks.hpp) are started and configured, and how each
// learns its rank.
//
//     start_processes(4, {"/path/program", "--steps", "20"})
//                                starts four processes on this machine, as torchrun does
//     find_tcp_environment()     in each of them: its rank, and where rank 0 is
//
// What a process reads from its environment:
//
//   RANK=2 WORLD_SIZE=4 MASTER_ADDR=node1 MASTER_PORT=29500
//       torchrun's names; rank 0 runs on node1
//   RANK=2 WORLD_SIZE=4 YOTTA_RENDEZVOUS_FILE=/shared/job-17
//       no address is known: rank 0 writes its own there
//   srun, mpirun: their own variables in place of RANK and WORLD_SIZE
//   torchrun itself (it sets TORCHELASTIC_USE_AGENT_STORE) listens at MASTER_PORT: then rank 0 uses
//       the next port
//
// YOTTA_RENDEZVOUS_SECONDS says how long all wait for each other (60).
// References: PyTorch, torch.distributed, "Environment variable initialization", "Shared
// file-system initialization".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/core/error.hpp"

#if YOTTA_BODIES_OF(transports)
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
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
};

// Empty if the environment does not say what this process's rank is, or where rank 0 is. Errors: a
// variable that is not a number.
YOTTA_API std::optional<TcpEnvironment> find_tcp_environment(
    const Environment& get = own_environment, Where where = Where::current());

// How the processes of a launch have ended.
struct LaunchResult {
  // Of the lowest rank that failed; 128 and more: it was killed by signal status - 128.
  int status = 0;
  std::string text = {};  // "rank 2 was killed: Killed", one line for each that was
};

// Starts n processes of a program, whose path is program[0], and waits for all. If one fails the
// others hear of it by themselves, and end. Errors: no program of that name; no folder for
// temporary files.
YOTTA_API LaunchResult start_processes(int n, std::vector<std::string> program,
                                       Where where = Where::current());

#if YOTTA_BODIES_OF(transports)

std::optional<TcpEnvironment> find_tcp_environment(const Environment& get, Where where) {
  const auto text = [&](const char* name) {
    const char* const value = get(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto number = [&](const char* name, int default_value, int smallest, int largest) {
    const std::string digits = text(name);
    if (digits.empty()) return default_value;
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
  self.rank0.port = number("MASTER_PORT", 29500, 1, 65534);
  if (text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++self.rank0.port;
  self.seconds = number("YOTTA_RENDEZVOUS_SECONDS", 60, 1, 1'000'000);
  return self;
}

// The environment of rank `rank`: this process's own, with the variables of a rank.
inline std::vector<std::string> environment_of(int rank, int n, const std::string& file) {
  const std::vector<std::string> variables = {fmt::format("RANK={}", rank),
                                              fmt::format("LOCAL_RANK={}", rank),
                                              fmt::format("WORLD_SIZE={}", n),
                                              fmt::format("LOCAL_WORLD_SIZE={}", n),
                                              fmt::format("YOTTA_LAUNCHER={}", getpid()),
                                              "YOTTA_RENDEZVOUS_FILE=" + file,
                                              "MASTER_ADDR=",
                                              "MASTER_PORT="};
  std::vector<std::string> all = variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view own = *each;
    const std::string_view name = own.substr(0, own.find('=') + 1);
    if (std::none_of(variables.begin(), variables.end(),
                     [&](auto& set) { return set.starts_with(name); }))
      all.emplace_back(own);
  }
  return all;
}

// As execve takes them; the words must outlive it.
inline std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

LaunchResult start_processes(int n, std::vector<std::string> program, Where where) {
  std::string folder = std::filesystem::temp_directory_path() / "yotta-job-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr)
    fail(where, "cannot make {}: {}", folder, std::strerror(errno));
  const std::string file = folder + "/rank0";
  using Action = struct sigaction;
  Action default_action{}, before{};  // a process that ignores SIGCHLD cannot learn how others end
  default_action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &default_action, &before);
  std::vector<pid_t> processes;
  int problem = 0;
  for (int rank = 0; rank < n && problem == 0; ++rank) {
    std::vector<std::string> environment = environment_of(rank, n, file);
    pid_t process = 0;
    problem = posix_spawn(&process, program[0].c_str(), nullptr, nullptr,
                          pointers_to(program).data(), pointers_to(environment).data());
    if (problem == 0) processes.push_back(process);
  }
  if (problem != 0)
    for (const pid_t process : processes) kill(process, SIGTERM);
  LaunchResult result;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    int status = 0, lost = 0;
    while (waitpid(processes[rank], &status, 0) < 0 && (lost = errno) == EINTR) lost = 0;
    if (lost != 0)  // another part of this program has waited for it
      result.text += fmt::format("how rank {} has ended is unknown: {}\n", rank, strerror(lost));
    if (WIFSIGNALED(status))
      result.text += fmt::format("rank {} was killed: {}\n", rank, strsignal(WTERMSIG(status)));
    const int code = lost != 0             ? 1
                     : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                           : WEXITSTATUS(status);
    if (result.status == 0) result.status = code;
  }
  sigaction(SIGCHLD, &before, nullptr);
  unlink(file.c_str());
  rmdir(folder.c_str());
  if (problem != 0) fail(where, "cannot start {}: {}", program[0], std::strerror(problem));
  return result;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
