// The bodies of comm/processes/process_supervision.hpp.
#pragma once

#include "yotta/comm/processes/process_supervision.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

namespace yotta {

// --- starting mpirun ---

YOTTA_INLINE MpiKind mpi_kind(std::string_view library) {
  if (library.find("Open MPI") != library.npos) return MpiKind::open_mpi;
  return library.find("MPICH") != library.npos ? MpiKind::mpich : MpiKind::other;
}

YOTTA_INLINE std::vector<std::string> mpirun_names(MpiKind kind) {
  if (kind == MpiKind::open_mpi) return {"mpirun.openmpi", "mpirun", "mpiexec"};
  if (kind == MpiKind::mpich) return {"mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec"};
  return {"mpirun", "mpiexec"};
}

YOTTA_INLINE std::string find_program(const std::vector<std::string>& names,
                                      std::string_view path) {
  for (const std::string& name : names)
    for (std::string_view rest = path; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      const std::string file = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
      if (access(file.c_str(), X_OK) == 0) return file;
    }
  return "";
}

YOTTA_INLINE MpirunCall mpirun_call(MpiKind kind, const std::string& mpirun, int n,
                                    const std::vector<std::string>& program) {
  MpirunCall call{{mpirun, "-n", std::to_string(n)}, {}};
  if (kind == MpiKind::open_mpi) {
    call.words.insert(call.words.end(), {"--oversubscribe", "--bind-to", "none"});
    call.setting = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                    {"OMPI_MCA_mpi_yield_when_idle", "1"},
                    // In many containers a process may not read another's memory.
                    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
  }
  if (kind == MpiKind::mpich) {
    // MPICH's mpirun ends all processes as soon as one is killed, and may name any of them. The
    // shell in between keeps the dead process's connection open for a while. In that time the
    // others report which rank it was, and end.
    call.words.insert(call.words.end(),
                      {"sh", "-c", R"("$@"; s=$?; [ $s -lt 128 ] || sleep 10; exit $s)", "sh"});
    call.setting = {
        {"UCX_TLS", "self,posix"},    // others read a dead process's memory, and crash
        {"UCX_LOG_LEVEL", "error"}};  // no warning of what a failed run has left unfinished
  }
  call.words.insert(call.words.end(), program.begin(), program.end());
  return call;
}

// --- which processes still live ---

YOTTA_INLINE bool ProcessAddress::sees(const ProcessAddress& other) const {
  return host == other.host && space == other.space && space[0] != '\0';
}

YOTTA_INLINE ProcessAddress own_address() {
  ProcessAddress own;
  gethostname(own.host.data(), own.host.size() - 1);
  own.pid = getpid();
  // "pid:[4026531836] 4c6e...": the first namespace of every machine has the same number, and
  // machines may share a name.
  const ssize_t length = readlink("/proc/self/ns/pid", own.space.data(), 26);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (length > 0 && boot.size() == 36)
    boot.insert(0, " ").copy(own.space.data() + length, 37);
  else
    own.space = {};
  return own;
}

YOTTA_INLINE std::string describe_lost_process(int rank, const ProcessAddress& address) {
  return "rank " + std::to_string(rank) + " has failed: its process, " +
         std::to_string(address.pid) + " on " + address.host.data() +
         ", ended without reporting an error: was it killed?";
}

struct ProcessWatch::State {
  std::vector<pollfd> watched;
  std::vector<int> names;
};

YOTTA_INLINE ProcessWatch::ProcessWatch() : state_(std::make_unique<State>()) {}
YOTTA_INLINE ProcessWatch::~ProcessWatch() {
  for (const pollfd& each : state_->watched) close(each.fd);
}
YOTTA_INLINE void ProcessWatch::add(int name, const ProcessAddress& address) {
  if (address.pid <= 0 || address.pid == getpid() || !own_address().sees(address)) return;
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, address.pid, 0));
  if (fd < 0) return;
  state_->watched.push_back({fd, POLLIN, 0});
  state_->names.push_back(name);
}
YOTTA_INLINE int ProcessWatch::ended() {
  std::vector<pollfd>& watched = state_->watched;
  if (watched.empty() || poll(watched.data(), watched.size(), 0) <= 0) return -1;
  for (size_t i = 0; i < watched.size(); ++i)
    if ((watched[i].revents & POLLIN) != 0) return state_->names[i];
  return -1;
}

YOTTA_INLINE Environment environment_of_process(int process) {
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

YOTTA_INLINE int parent_of_process(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // "4711 (any name) S 4700 ..."
  return name_end == text.npos ? 0 : std::atoi(text.c_str() + std::min(text.size(), name_end + 4));
}

YOTTA_INLINE int find_launcher() {
  if (!find_launch_environment()) return 0;
  int process = getppid();
  while (process > 1 && find_launch_environment(environment_of_process(process)))
    process = parent_of_process(process);
  return process > 1 ? process : 0;
}

struct ParentWatchdog::State {
  int process;
  std::function<void(int)> on_end;
  ProcessWatch watch;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool stopped = false;
  std::thread thread;

  void watch_parent() {
    std::unique_lock lock(mutex);
    while (!stopped && watch.ended() < 0) changed.wait_for(lock, std::chrono::milliseconds(50));
    if (!stopped) on_end(process);
  }
};

YOTTA_INLINE ParentWatchdog::ParentWatchdog(int process, std::function<void(int)> on_end)
    : state_(std::make_unique<State>()) {
  state_->process = process;
  state_->on_end = std::move(on_end);
  if (process == 0) return;
  ProcessAddress address = own_address();
  address.pid = process;
  state_->watch.add(0, address);
  state_->thread = std::thread([state = state_.get()] { state->watch_parent(); });
}
YOTTA_INLINE ParentWatchdog::~ParentWatchdog() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

}  // namespace yotta
