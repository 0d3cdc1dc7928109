#include "runner/process.hpp"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace runner {

int become(const Command& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  fmt::print(stderr, "cannot start {}: {}\n", command[0], std::strerror(errno));
  return 127;
}

int run(const Command& command) {
  std::fflush(nullptr);  // or the child prints our buffers a second time
  const pid_t child = fork();
  if (child == 0) _exit(become(command));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 127;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace runner
