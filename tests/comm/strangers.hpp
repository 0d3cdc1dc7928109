// Programs that are no ranks of a job over TCP: they listen or connect as they like.
//
//     Stranger server;                      it listens at server.port()
//     SilentConnections many(port, 100);    a hundred connections that say nothing
//     Flood flood({port}, 3, 150);          the same from three other processes
//     LimitedProcess process(256, code);    code() runs in a process with few descriptors
//     in_limited_process(256, code)         what code() returns there
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/longest_wait.hpp"

namespace yotta_test {

inline sockaddr_in local_address(int port, const char* host = "127.0.0.1") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

// A program that is not this library: it listens, and can say something to one that connects.
class Stranger {
 public:
  Stranger() {
    sockaddr_in address = local_address(0);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(fd_, any, length) == 0);
    REQUIRE(listen(fd_, 16) == 0);
    REQUIRE(getsockname(fd_, any, &length) == 0);
    port_ = ntohs(address.sin_port);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { close(fd_); }
  int port() const { return port_; }
  int fd() const { return fd_; }
  void answer_one(const std::string& words) const {
    const int fd = accept(fd_, nullptr, nullptr);
    CHECK(send(fd, words.data(), words.size(), MSG_NOSIGNAL) == std::ssize(words));
    char bytes[256];
    while (recv(fd, bytes, sizeof bytes, 0) > 0) continue;
    close(fd);
  }

 private:
  int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port_ = 0;
};
// A port at which nothing listens.
inline int free_port() { return Stranger().port(); }

// A connection to a port of this machine from this address of it, as soon as something listens; -1:
// nothing does.
inline int connect_at_last(int port, const char* from = "127.0.0.1") {
  const sockaddr_in address = local_address(port), own = local_address(0, from);
  for (const GiveUp late; !late;) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return fd;
    close(fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return -1;
}
// Does a port of this machine accept a connection within a tenth of a second? One that is closed
// may not answer at all, so a test that expects "yes" asks again: comes().
inline bool can_connect(int port) {
  const sockaddr_in address = local_address(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  pollfd item{fd, POLLOUT, 0};
  int problem = 0;
  socklen_t length = sizeof problem;
  const bool well = poll(&item, 1, 100) == 1 &&
                    getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length) == 0 && problem == 0;
  close(fd);
  return well;
}

class SilentConnections {
 public:
  SilentConnections(int port, int count, const char* from = "127.0.0.1") {
    for (int i = 0; i < count; ++i) fds_.push_back(connect_at_last(port, from));
  }
  SilentConnections(const SilentConnections&) = delete;
  SilentConnections& operator=(const SilentConnections&) = delete;
  ~SilentConnections() {
    for (const int fd : fds_) close(fd);
  }
  // Has the other side left connection i open? (Its greeting may lie there.)
  bool is_open(size_t i) const {
    std::array<char, 256> bytes;
    ssize_t got = 1;
    while (got > 0) got = recv(fds_[i], bytes.data(), bytes.size(), MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN;
  }
  int open() const {
    int count = 0;
    for (size_t i = 0; i < fds_.size(); ++i) count += is_open(i) ? 1 : 0;
    return count;
  }
  void say(const std::string& words) const {
    for (const int fd : fds_) CHECK(send(fd, words.data(), words.size(), MSG_NOSIGNAL) > 0);
  }

 private:
  std::vector<int> fds_;
};

// Silent connections to these ports, `count` from each of `processes` processes.
class Flood {
 public:
  Flood(const std::vector<int>& ports, int processes, int count) {
    for (int i = 0; i < processes; ++i) {
      processes_.push_back(fork());
      if (processes_.back() != 0) continue;
      for (int made = 0; made < count; ++made)
        connect_at_last(ports[static_cast<size_t>(made) % ports.size()]);
      for (;;) pause();
    }
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  ~Flood() {
    for (const pid_t each : processes_) {
      kill(each, SIGKILL);
      waitpid(each, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> processes_;
};

// A process that may have so many descriptors. It runs code(), and text() waits for what that
// returns, but not for ever. Start it before any thread: a lock that another thread holds then is
// never released in the new process.
class LimitedProcess {
 public:
  template <class Code>
  LimitedProcess(rlim_t descriptors, Code code) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    process_ = fork();
    if (process_ == 0) {
      const rlimit limit{descriptors, descriptors};
      setrlimit(RLIMIT_NOFILE, &limit);
      const std::string text = code();
      _exit(write(ends[1], text.data(), text.size()) == std::ssize(text) ? 0 : 1);
    }
    close(ends[1]);
    result_ = ends[0];
  }
  LimitedProcess(const LimitedProcess&) = delete;
  LimitedProcess& operator=(const LimitedProcess&) = delete;
  ~LimitedProcess() {
    close(result_);
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  std::string text() const {
    std::string all;
    std::array<char, 4096> bytes;
    pollfd item{result_, POLLIN, 0};
    while (poll(&item, 1, static_cast<int>(1000 * longest_wait)) == 1) {
      const ssize_t got = read(result_, bytes.data(), bytes.size());
      if (got <= 0) break;
      all.append(bytes.data(), static_cast<size_t>(got));
    }
    return all;
  }

 private:
  pid_t process_ = -1;
  int result_ = -1;
};

template <class Code>
std::string in_limited_process(rlim_t descriptors, Code code) {
  return LimitedProcess(descriptors, code).text();
}

}  // namespace yotta_test
