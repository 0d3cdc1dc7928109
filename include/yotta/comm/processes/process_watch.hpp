// ProcessWatch: has another process of this host ended?
//
//     rank 2 is killed  ──►  its pidfd becomes readable  ──►  rank 0, at its next look: "rank 2: process 4711
//                                                             on node7 has ended"
//
// A rank that is killed, or leaves by exit(), tells nobody. mpirun often does (Open MPI names the rank), but not
// everywhere, and MPI itself may wait for ever. A pidfd is bound to the process, not to its number, so another
// process that gets the same number later is never mistaken for it. Where the kernel has no pidfd, or the other
// process lives in another container, nothing is watched.
// Reference: pidfd_open(2), Linux 5.3.
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

namespace yotta {

// Where a process is. Processes with the same place see each other under the same numbers.
struct ProcessAddress {
  std::array<char, 64> host = {};  // the name of the machine
  // A container has numbers of its own, and so has every start of a machine.
  std::array<char, 64> space = {};
  int pid = 0;

  bool sees(const ProcessAddress& other) const {
    return host == other.host && space == other.space && space[0] != '\0';
  }
};

// Of the process that calls it.
inline ProcessAddress own_address() {
  ProcessAddress own;
  gethostname(own.host.data(), own.host.size() - 1);
  own.pid = getpid();
  // "pid:[4026531836] 4c6e...": the first namespace of every machine has the same number, and machines may share a name.
  const ssize_t length = readlink("/proc/self/ns/pid", own.space.data(), 26);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (length > 0 && boot.size() == 36)
    boot.insert(0, " ").copy(own.space.data() + length, 37);
  else
    own.space = {};
  return own;
}

// "rank 2 has failed: its process, 4711 on node7, has ended without a word: was it killed?"
inline std::string describe_end(int rank, const ProcessAddress& address) {
  return "rank " + std::to_string(rank) + " has failed: its process, " +
         std::to_string(address.pid) + " on " + address.host.data() +
         ", has ended without a word: was it killed?";
}

class ProcessWatch {
 public:
  ProcessWatch() = default;
  ~ProcessWatch() {
    for (const pollfd& each : watched_) close(each.fd);
  }
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // From now on under this name, if it can be watched.
  void add(int name, const ProcessAddress& address) {
    if (!own_address().sees(address) || address.pid == getpid()) return;
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, address.pid, 0));
    if (fd < 0) return;
    watched_.push_back({fd, POLLIN, 0});
    names_.push_back(name);
  }
  // The name of one that has ended; -1: none. Never blocks.
  int ended() {
    if (watched_.empty() || poll(watched_.data(), watched_.size(), 0) <= 0) return -1;
    for (size_t i = 0; i < watched_.size(); ++i)
      if ((watched_[i].revents & POLLIN) != 0) return names_[i];
    return -1;
  }

 private:
  std::vector<pollfd> watched_;
  std::vector<int> names_;
};

}  // namespace yotta
