// The bodies of comm/processes/job_start.hpp.
#pragma once

#include "yotta/comm/processes/job_start.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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
  for (const std::string& each : words.said()) result.text += each + "\n";
  return result;
}

}  // namespace yotta
