// StarterWatch: does the mpirun that has started this process still live?
//
//     shell ── mpirun ── sh ── this process        the starter is the nearest ancestor that is no process of the job:
//              place:    2 of 4   2 of 4           here mpirun; on another host its proxy; under Slurm slurmstepd
//
// mpirun ends all processes of a job as soon as one has failed. If mpirun itself is killed nobody ends them: they compute
// for nobody, or wait for ever inside MPI_Finalize, which needs it. So a thread looks now and then.
// Cost: twenty looks a second. As with ProcessWatch, nothing is watched where it cannot be.
// Reference: proc(5), /proc/pid/environ and /proc/pid/stat.
#pragma once

#include <condition_variable>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>

#include "yotta/comm/processes/process_watch.hpp"
#include "yotta/comm/processes/processes.hpp"

namespace yotta {

// What a process was started with; nothing, if it has gone or is another user's.
inline Environment environment_of_process(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  const auto all = std::make_shared<const std::string>(std::istreambuf_iterator<char>(file),
                                                       std::istreambuf_iterator<char>());
  return [all](const char* name) -> const char* {
    const std::string begin = std::string(name) + '=';
    for (size_t at = 0; at < all->size(); at = all->find('\0', at) + 1) {
      if (all->compare(at, begin.size(), begin) == 0) return all->c_str() + at + begin.size();
      if (all->find('\0', at) == all->npos) break;
    }
    return nullptr;
  };
}

// 0: it has gone.
inline int parent_of_process(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // "4711 (any name) S 4700 ..."
  return name_end == text.npos ? 0 : std::atoi(text.c_str() + std::min(text.size(), name_end + 4));
}

// The process that has put this one into a job; 0: there is none, or nobody can tell.
inline int find_starter() {
  if (!find_place()) return 0;
  int process = getppid();
  while (process > 1 && find_place(environment_of_process(process)))
    process = parent_of_process(process);
  return process > 1 ? process : 0;
}

class StarterWatch {
 public:
  // A thread calls on_end(process) when this process has ended. 0: there is nothing to watch.
  StarterWatch(int process, std::function<void(int)> on_end)
      : process_(process), on_end_(std::move(on_end)) {
    if (process == 0) return;
    ProcessAddress address = own_address();
    address.pid = process;
    watch_.add(0, address);
    thread_ = std::thread([this] { look_on(); });
  }
  ~StarterWatch() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  StarterWatch(const StarterWatch&) = delete;
  StarterWatch& operator=(const StarterWatch&) = delete;

 private:
  void look_on() {
    std::unique_lock lock(mutex_);
    while (!stopped_ && watch_.ended() < 0) changed_.wait_for(lock, std::chrono::milliseconds(50));
    if (!stopped_) on_end_(process_);
  }

  int process_;
  std::function<void(int)> on_end_;
  ProcessWatch watch_;
  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace yotta
