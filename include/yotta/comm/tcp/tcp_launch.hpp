// Starts the processes of a job on this machine, as torchrun does, for programs that are ranks by TCP (tcp_ranks.hpp).
//
//     start_processes(4, {"/path/program", "--steps", "20"})     RANK=0 ... RANK=3, WORLD_SIZE=4, one file to meet at
//
// Waits for all. If one fails the others hear of it by themselves, and end.
// Errors: no program of that name; no folder for temporary files.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>

#include "yotta/comm/tcp/tcp_place.hpp"

namespace yotta {

// How a job has ended.
struct JobEnd {
  // Of the lowest rank that failed; 128 and more: it was killed by signal status - 128.
  int status = 0;
  std::string text = {};  // "rank 2 was killed: Killed", a line for each that was
};

// The environment of rank `rank`: this process's own, with its place in the job.
inline std::vector<std::string> environment_of(int rank, int n, const std::string& file) {
  const std::vector<std::string> place = {fmt::format("RANK={}", rank),
                                          fmt::format("LOCAL_RANK={}", rank),
                                          fmt::format("WORLD_SIZE={}", n),
                                          fmt::format("LOCAL_WORLD_SIZE={}", n),
                                          fmt::format("YOTTA_LAUNCHER={}", getpid()),
                                          "YOTTA_RENDEZVOUS_FILE=" + file,
                                          "MASTER_ADDR=",
                                          "MASTER_PORT="};
  std::vector<std::string> all = place;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view own = *each;
    const std::string_view name = own.substr(0, own.find('=') + 1);
    if (std::none_of(place.begin(), place.end(), [&](auto& set) { return set.starts_with(name); }))
      all.emplace_back(own);
  }
  return all;
}

// As execve takes them; the words must outlive it.
inline std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts n processes of a program, whose path is program[0], and waits for all.
inline JobEnd start_processes(int n, std::vector<std::string> program,
                              Where where = Where::current()) {
  std::string folder = std::filesystem::temp_directory_path() / "yotta-job-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr)
    fail(where, "cannot make {}: {}", folder, std::strerror(errno));
  const std::string file = folder + "/rank0";
  using Action = struct sigaction;
  Action usual{}, before{};  // whoever ignores SIGCHLD is not told how they end
  usual.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &usual, &before);
  std::vector<pid_t> processes;
  int problem = 0;
  for (int rank = 0; rank < n && problem == 0; ++rank) {
    std::vector<std::string> environment = environment_of(rank, n, file);
    pid_t process = 0;
    problem = posix_spawn(&process, program[0].c_str(), nullptr, nullptr,
                          pointers_to(program).data(), pointers_to(environment).data());
    if (problem == 0) processes.push_back(process);
  }
  if (problem != 0)
    for (const pid_t process : processes) kill(process, SIGTERM);
  JobEnd end;
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    int status = 0, lost = 0;
    while (waitpid(processes[rank], &status, 0) < 0 && (lost = errno) == EINTR) lost = 0;
    if (lost != 0)  // another part of this program has waited for it
      end.text += fmt::format("how rank {} has ended is unknown: {}\n", rank, strerror(lost));
    if (WIFSIGNALED(status))
      end.text += fmt::format("rank {} was killed: {}\n", rank, strsignal(WTERMSIG(status)));
    const int code = lost != 0             ? 1
                     : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                           : WEXITSTATUS(status);
    if (end.status == 0) end.status = code;
  }
  sigaction(SIGCHLD, &before, nullptr);
  unlink(file.c_str());
  rmdir(folder.c_str());
  if (problem != 0) fail(where, "cannot start {}: {}", program[0], std::strerror(problem));
  return end;
}

}  // namespace yotta
