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

#if YOTTA_BODIES_OF(transports)
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
#endif  // YOTTA_BODIES

namespace yotta {

// --- starting mpirun ---

// The MPIs whose mpirun is known, by what MPI_Get_library_version says.
enum class MpiKind { open_mpi, mpich, other };
YOTTA_API MpiKind mpi_kind(std::string_view library);

// The names of an MPI's launcher; the name that no other MPI uses comes first. (Debian has several
// MPIs side by side.)
YOTTA_API std::vector<std::string> mpirun_names(MpiKind kind);

// The first of these programs that lies in a folder of `path` (PATH's value); empty if none does.
YOTTA_API std::string find_program(const std::vector<std::string>& names, std::string_view path);

struct MpirunCall {
  std::vector<std::string> words;  // mpirun and its arguments
  // Environment variables, unless they are set already.
  std::vector<std::pair<std::string, std::string>> setting;
};

// Starts `program` on n processes of this machine, also with fewer cores than processes, and as
// root. They are bound to no core (four bound to two would share them badly), and yield while they
// wait.
YOTTA_API MpirunCall mpirun_call(MpiKind kind, const std::string& mpirun, int n,
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

  YOTTA_API bool sees(const ProcessAddress& other) const;
};

// The address of the calling process.
YOTTA_API ProcessAddress own_address();

// "rank 2 has failed: its process, 4711 on node7, ended without reporting an error: was it killed?"
YOTTA_API std::string describe_lost_process(int rank, const ProcessAddress& address);

class ProcessWatch {
 public:
  YOTTA_API ProcessWatch();
  YOTTA_API ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Watches a process under this name from now on, if it can be watched.
  YOTTA_API void add(int name, const ProcessAddress& address);
  // The name of a process that has ended; -1: none has. Never blocks.
  YOTTA_API int ended();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The environment that a process was started with; empty if it has ended or is another user's.
YOTTA_API Environment environment_of_process(int process);
// 0: the process has ended.
YOTTA_API int parent_of_process(int process);
// The process that has started this one as part of a run; 0: there is none, or it cannot be found.
YOTTA_API int find_launcher();

class ParentWatchdog {
 public:
  // A thread calls on_end(process) when this process has ended. 0: there is nothing to watch.
  YOTTA_API ParentWatchdog(int process, std::function<void(int)> on_end);
  YOTTA_API ~ParentWatchdog();
  ParentWatchdog(const ParentWatchdog&) = delete;
  ParentWatchdog& operator=(const ParentWatchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

#if YOTTA_BODIES_OF(transports)

// --- starting mpirun ---

MpiKind mpi_kind(std::string_view library) {
  if (library.find("Open MPI") != library.npos) return MpiKind::open_mpi;
  return library.find("MPICH") != library.npos ? MpiKind::mpich : MpiKind::other;
}

std::vector<std::string> mpirun_names(MpiKind kind) {
  if (kind == MpiKind::open_mpi) return {"mpirun.openmpi", "mpirun", "mpiexec"};
  if (kind == MpiKind::mpich) return {"mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec"};
  return {"mpirun", "mpiexec"};
}

std::string find_program(const std::vector<std::string>& names, std::string_view path) {
  for (const std::string& name : names)
    for (std::string_view rest = path; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      const std::string file = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
      if (access(file.c_str(), X_OK) == 0) return file;
    }
  return "";
}

MpirunCall mpirun_call(MpiKind kind, const std::string& mpirun, int n,
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

bool ProcessAddress::sees(const ProcessAddress& other) const {
  return host == other.host && space == other.space && space[0] != '\0';
}

ProcessAddress own_address() {
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

std::string describe_lost_process(int rank, const ProcessAddress& address) {
  return "rank " + std::to_string(rank) + " has failed: its process, " +
         std::to_string(address.pid) + " on " + address.host.data() +
         ", ended without reporting an error: was it killed?";
}

struct ProcessWatch::State {
  std::vector<pollfd> watched;
  std::vector<int> names;
};

ProcessWatch::ProcessWatch() : state_(std::make_unique<State>()) {}
ProcessWatch::~ProcessWatch() {
  for (const pollfd& each : state_->watched) close(each.fd);
}
void ProcessWatch::add(int name, const ProcessAddress& address) {
  if (address.pid <= 0 || address.pid == getpid() || !own_address().sees(address)) return;
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, address.pid, 0));
  if (fd < 0) return;
  state_->watched.push_back({fd, POLLIN, 0});
  state_->names.push_back(name);
}
int ProcessWatch::ended() {
  std::vector<pollfd>& watched = state_->watched;
  if (watched.empty() || poll(watched.data(), watched.size(), 0) <= 0) return -1;
  for (size_t i = 0; i < watched.size(); ++i)
    if ((watched[i].revents & POLLIN) != 0) return state_->names[i];
  return -1;
}

Environment environment_of_process(int process) {
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

int parent_of_process(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // "4711 (any name) S 4700 ..."
  return name_end == text.npos ? 0 : std::atoi(text.c_str() + std::min(text.size(), name_end + 4));
}

int find_launcher() {
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

ParentWatchdog::ParentWatchdog(int process, std::function<void(int)> on_end)
    : state_(std::make_unique<State>()) {
  state_->process = process;
  state_->on_end = std::move(on_end);
  if (process == 0) return;
  ProcessAddress address = own_address();
  address.pid = process;
  state_->watch.add(0, address);
  state_->thread = std::thread([state = state_.get()] { state->watch_parent(); });
}
ParentWatchdog::~ParentWatchdog() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

#endif  // YOTTA_BODIES

}  // namespace yotta
