// Whether a thread of this process sleeps, as the kernel says.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace yotta_test {

inline long this_thread_number() { return syscall(SYS_gettid); }

inline bool sleeps(long thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_ends = line.rfind(')');
  return name_ends != line.npos && line.substr(name_ends).starts_with(") S");
}

// Waits until it sleeps. False: it has not, in so many seconds.
inline bool falls_asleep(long thread, int seconds = 20) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!sleeps(thread)) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Both ranks of a world of threads of this process call it. False: rank 0, which waits for rank 1,
// does not sleep.
template <class Communicator>
bool sleeps_while_it_waits(Communicator& world) {
  std::vector<int64_t> thread = {this_thread_number()};
  bool slept = true;
  if (world.rank() == 0) {
    world.send(thread, 1);
    world.recv(thread, 1);
  } else {
    world.recv(thread, 0);
    slept = falls_asleep(thread[0]);
    world.send(thread, 0);
  }
  return slept;
}

}  // namespace yotta_test
