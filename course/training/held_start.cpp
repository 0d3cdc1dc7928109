// A small program in front of a large one: it starts in less than a millisecond, holds a
// scheduler's signals, and becomes the program of its own name and "_program". The large one's
// libraries take some tens of milliseconds to load, and until then SIGTERM or SIGUSR1 would be its
// end.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace {

// Blocked signals wait, also beyond execv: note_stop_signals() takes them.
void hold_stop_signals() {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1), sigaddset(&both, SIGTERM);
  sigprocmask(SIG_BLOCK, &both, nullptr);
}

// Others want to end at once.
bool wants_requeue(char** words) {
  for (; *words != nullptr; ++words)
    if (std::strcmp(*words, "--requeue") == 0 || std::strncmp(*words, "--requeue=", 10) == 0)
      return true;
  return false;
}

}  // namespace

int main(int, char** argv) {
  if (wants_requeue(argv)) hold_stop_signals();
  constexpr char ending[] = "_program";
  char path[4096 + sizeof ending];
  const ssize_t length = readlink("/proc/self/exe", path, 4096);
  if (length > 0) {
    std::memcpy(path + length, ending, sizeof ending);
    execv(path, argv);
  }
  std::fprintf(stderr, "cannot start %s: %s. Build it again: cmake --build with --target train\n",
               length > 0 ? path : argv[0], std::strerror(errno));
  return 127;
}
