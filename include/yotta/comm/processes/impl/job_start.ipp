// The bodies of comm/processes/job_start.hpp.
#pragma once

#include "yotta/comm/processes/job_start.hpp"

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

namespace yotta {

// As execve takes them; the words must outlive it.
inline std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

YOTTA_INLINE pid_t start_process(std::vector<std::string> program,
                                 std::vector<std::string> environment, int signal_at_end,
                                 int kept) {
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

YOTTA_INLINE std::vector<std::string> own_environment_with(
    const std::vector<std::string>& settings) {
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

YOTTA_INLINE ChildSignals::ChildSignals() {
  using Action = struct sigaction;
  Action usual{};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &usual, &before_);
}
YOTTA_INLINE ChildSignals::~ChildSignals() { sigaction(SIGCHLD, &before_, nullptr); }

YOTTA_INLINE HeldSignals::HeldSignals(bool holds) {
  sigset_t held;
  sigemptyset(&held);
  if (holds) sigaddset(&held, SIGTERM), sigaddset(&held, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}
YOTTA_INLINE HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

YOTTA_INLINE JobWatch::JobWatch(std::vector<pid_t> processes, RankWords& words, double patience,
                                SignalSeen seen)
    : processes_(std::move(processes)),
      codes_(processes_.size(), -1),
      words_(words),
      patience_(patience),
      seen_(seen) {}

YOTTA_INLINE LaunchResult JobWatch::wait() {
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

YOTTA_INLINE void JobWatch::pass_on() {
  const int signal = seen_ == nullptr ? 0 : seen_();
  if (signal == 0) return;
  for (size_t rank = 0; rank < processes_.size(); ++rank)
    if (codes_[rank] < 0) kill(processes_[rank], signal);
  seen_ = nullptr;  // once
}

YOTTA_INLINE bool JobWatch::has_ended(size_t index) {
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

YOTTA_INLINE void JobWatch::kill_the_rest() {
  for (size_t rank = 0; rank < processes_.size(); ++rank) {
    if (codes_[rank] >= 0) continue;
    result_.text += fmt::format("rank {} has not ended within {} s after that. Was it stopped?\n",
                                rank, patience_);
    kill(processes_[rank], SIGKILL);
  }
  patience_ = std::numeric_limits<double>::infinity();  // once
}

YOTTA_INLINE LaunchResult start_mpirun(const MpirunCall& call, int n, SignalSeen seen,
                                       Where where) {
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

}  // namespace yotta
