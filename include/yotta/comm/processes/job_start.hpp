// Starting a job on this machine, and how it has ended.
//
//     JobWatch          the processes are ours: each is waited for, and if one fails the others
//                       hear of it at once (rank_words.hpp), and are killed if they do not end
//     start_mpirun      the processes are mpirun's: it says how they have ended, and each rank says
//                       it too
//
// A status of 0 alone proves nothing: MPICH's mpirun has reported success for a rank that had left
// before MPI_Finalize, and a rank that calls exit(0) in the middle of a run has status 0.
// What is started is killed by the kernel when the thread that started it ends, for whatever reason
// (prctl(2), PR_SET_PDEATHSIG): no job outlives its starter.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "yotta/comm/processes/process_supervision.hpp"
#include "yotta/comm/processes/rank_words.hpp"
#include "yotta/core/error.hpp"

#if YOTTA_BODIES_OF(transports)
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#endif  // YOTTA_BODIES

namespace yotta {

// How the processes of a launch have ended.
struct LaunchResult {
  // Of the lowest rank that failed; 128 and more: it was killed by signal status - 128.
  int status = 0;
  std::string text = {};  // "rank 2 was killed: Killed", one line for each that was
};

// Starts one process with these words and settings; it gets a signal when the thread that has
// started it ends, and keeps the descriptor `kept` (-1: none). Returns its number, or minus the
// error.
YOTTA_API pid_t start_process(std::vector<std::string> program,
                              std::vector<std::string> environment, int signal_at_end,
                              int kept = -1);

// This process's environment, with these settings in place of its own of the same names.
YOTTA_API std::vector<std::string> own_environment_with(const std::vector<std::string>& settings);

// A process that ignores SIGCHLD cannot learn how others end; in its scope this one does not.
class ChildSignals {
 public:
  YOTTA_API ChildSignals();
  YOTTA_API ~ChildSignals();
  ChildSignals(const ChildSignals&) = delete;
  ChildSignals& operator=(const ChildSignals&) = delete;

 private:
  struct sigaction before_ = {};
};

// A signal that has come to this process and is to be passed on to those that it has started; 0:
// none. A null SignalSeen: nothing is passed on.
using SignalSeen = int (*)();

// In its scope SIGTERM and SIGUSR1 wait, and in the programs that are started in it: until those
// have handlers of their own, and take them. So none is lost in between.
class HeldSignals {
 public:
  YOTTA_API explicit HeldSignals(bool holds);
  YOTTA_API ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_ = {};
};

// Waits for the processes of a job, by rank, and tells those that are left of each that has failed.
// They end by themselves. What has not ended `patience` seconds after a failure is killed: a
// stopped process hears nothing.
class JobWatch {
 public:
  YOTTA_API JobWatch(std::vector<pid_t> processes, RankWords& words, double patience = 20,
                     SignalSeen seen = nullptr);
  YOTTA_API LaunchResult wait();

 private:
  YOTTA_API bool has_ended(size_t index);
  YOTTA_API void kill_the_rest();
  YOTTA_API void pass_on();

  std::vector<pid_t> processes_;
  std::vector<int> codes_;  // by rank; -1: it runs
  RankWords& words_;
  double patience_;
  SignalSeen seen_;
  LaunchResult result_;
};

// Starts mpirun with n ranks and waits for its end. Its status counts, unless it is 0 and a rank
// has not said that it ended well: then the job has failed, and the rank is named. Errors: no such
// program.
YOTTA_API LaunchResult start_mpirun(const MpirunCall& call, int n, SignalSeen seen = nullptr,
                                    Where where = Where::current());

#if YOTTA_BODIES_OF(transports)

// As execve takes them; the words must outlive it.
inline std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

pid_t start_process(std::vector<std::string> program, std::vector<std::string> environment,
                    int signal_at_end, int kept) {
  std::vector<char*> words = pointers_to(program), settings = pointers_to(environment);
  int report[2] = {-1, -1};  // closes by itself if the program starts
  if (pipe2(report, O_CLOEXEC) != 0) return -errno;
  const pid_t starter = getpid(), process = fork();
  if (process == 0) {  // only calls that may follow a fork of a program with threads
    prctl(PR_SET_PDEATHSIG, signal_at_end);
    if (getppid() != starter) _exit(1);  // it has ended in between
    if (kept >= 0) fcntl(kept, F_SETFD, 0);
    execve(words[0], words.data(), settings.data());
    const int problem = errno;
    static_cast<void>(!write(report[1], &problem, sizeof problem));
    _exit(127);
  }
  int problem = process < 0 ? errno : 0;
  close(report[1]);
  if (process > 0 && read(report[0], &problem, sizeof problem) > 0) waitpid(process, nullptr, 0);
  close(report[0]);
  return problem == 0 ? process : -problem;
}

std::vector<std::string> own_environment_with(const std::vector<std::string>& settings) {
  std::vector<std::string> all = settings;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view own = *each;
    const std::string_view name = own.substr(0, own.find('=') + 1);
    if (std::none_of(settings.begin(), settings.end(),
                     [&](auto& set) { return set.starts_with(name); }))
      all.emplace_back(own);
  }
  return all;
}

ChildSignals::ChildSignals() {
  using Action = struct sigaction;
  Action usual{};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &usual, &before_);
}
ChildSignals::~ChildSignals() { sigaction(SIGCHLD, &before_, nullptr); }

HeldSignals::HeldSignals(bool holds) {
  sigset_t held;
  sigemptyset(&held);
  if (holds) sigaddset(&held, SIGTERM), sigaddset(&held, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}
HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

JobWatch::JobWatch(std::vector<pid_t> processes, RankWords& words, double patience, SignalSeen seen)
    : processes_(std::move(processes)),
      codes_(processes_.size(), -1),
      words_(words),
      patience_(patience),
      seen_(seen) {}

LaunchResult JobWatch::wait() {
  std::optional<std::chrono::steady_clock::time_point> failed_at;
  for (size_t left = processes_.size(); left > 0;) {
    words_.read(20);
    pass_on();
    for (size_t rank = 0; rank < processes_.size(); ++rank)
      if (codes_[rank] < 0 && has_ended(rank)) --left;
    const auto now = std::chrono::steady_clock::now();
    if (!failed_at && std::any_of(codes_.begin(), codes_.end(), [](int code) { return code > 0; }))
      failed_at = now;
    if (failed_at && std::chrono::duration<double>(now - *failed_at).count() > patience_)
      kill_the_rest();
  }
  words_.read(0);
  for (const std::string& each : words_.said()) result_.text += each + "\n";
  for (const int code : codes_)
    if (result_.status == 0) result_.status = code;
  return std::move(result_);
}

void JobWatch::pass_on() {
  const int signal = seen_ == nullptr ? 0 : seen_();
  if (signal == 0) return;
  for (size_t rank = 0; rank < processes_.size(); ++rank)
    if (codes_[rank] < 0) kill(processes_[rank], signal);
  seen_ = nullptr;  // once
}

bool JobWatch::has_ended(size_t index) {
  int status = 0, rank = static_cast<int>(index);
  const pid_t ended = waitpid(processes_[index], &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  std::string how;
  if (ended < 0) {  // another part of this program has waited for it
    result_.text += fmt::format("how rank {} has ended is unknown: {}\n", rank, strerror(errno));
    codes_[index] = 1;
    return true;
  }
  codes_[index] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (WIFSIGNALED(status)) how = fmt::format("was killed: {}", strsignal(WTERMSIG(status)));
  words_.read(0);  // its last word
  if (codes_[index] == 0 && words_.has_come(rank) && !words_.ended_well(rank)) {
    how = "ended with status 0 in the middle of the job (did it call exit?)";
    codes_[index] = 1;
  }
  if (!how.empty()) result_.text += fmt::format("rank {} {}\n", rank, how);
  if (how.empty() && codes_[index] != 0)
    how = fmt::format("has ended with status {}", codes_[index]);
  if (!how.empty()) words_.tell(rank, how);
  return true;
}

void JobWatch::kill_the_rest() {
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    if (codes_[rank] >= 0) continue;
    result_.text += fmt::format("rank {} has not ended within {} s after that. Was it stopped?\n",
                                rank, patience_);
    kill(processes_[rank], SIGKILL);
  }
  patience_ = std::numeric_limits<double>::infinity();  // once
}

LaunchResult start_mpirun(const MpirunCall& call, int n, SignalSeen seen, Where where) {
  RankWords words(n);
  std::vector<std::string> settings = {fmt::format("{}={}", words_variable, words.name())};
  for (const auto& [name, value] : call.setting)
    if (own_environment(name.c_str()) == nullptr) settings.push_back(name + "=" + value);
  const ChildSignals signals;
  const pid_t process = start_process(call.words, own_environment_with(settings), SIGTERM);
  if (process < 0) fail(where, "cannot start {}: {}", call.words[0], std::strerror(-process));
  const auto interrupt = signal(SIGINT, SIG_IGN);  // the terminal sends it to mpirun, too
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(process, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
    words.read(20);
    if (seen == nullptr || seen() == 0) continue;
    // Once, and always this one, which mpirun passes on. After SIGTERM Open MPI leaves its ranks a
    // second.
    kill(process, SIGUSR1), seen = nullptr;
  }
  signal(SIGINT, interrupt);
  words.read(0);
  LaunchResult result;
  result.status = ended < 0             ? 1
                  : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                        : WEXITSTATUS(status);
  for (int rank = 0; rank < n && (result.status == 0 || !result.text.empty()); ++rank) {
    if (words.ended_well(rank)) continue;
    result.text += fmt::format("rank {} ended before MPI_Finalize, although {} reports success\n",
                               rank, call.words[0]);
    result.status = 1;
  }
  return result;
}

#endif  // YOTTA_BODIES

}  // namespace yotta
