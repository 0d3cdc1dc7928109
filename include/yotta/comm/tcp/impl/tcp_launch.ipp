// The bodies of comm/tcp/tcp_launch.hpp.
#pragma once

#include "yotta/comm/tcp/tcp_launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "yotta/comm/processes/rank_words.hpp"

namespace yotta {

YOTTA_INLINE std::optional<TcpEnvironment> find_tcp_environment(const Environment& get,
                                                                Where where) {
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

YOTTA_INLINE std::string make_job_key() {
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

YOTTA_INLINE LaunchResult start_processes(int n, std::vector<std::string> program, SignalSeen seen,
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

}  // namespace yotta
