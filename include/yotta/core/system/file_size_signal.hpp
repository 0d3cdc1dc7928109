// FileSizeSignal: a write beyond the limit for files (ulimit -f) is an error, not the end.
//
//     const FileSizeSignal held;
//     fwrite(...)                   fails with EFBIG; without it SIGXFSZ ends the program, silently
//
// The signal belongs to the thread that writes. It is held back there as long as this lives, and
// taken away if it came; other threads and handlers of the program's own notice nothing.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <ctime>

namespace yotta {

class FileSizeSignal {
 public:
  FileSizeSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGXFSZ);
    sigset_t waiting;
    sigpending(&waiting);
    was_waiting_ = sigismember(&waiting, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~FileSizeSignal() {
    const int error = errno;  // of the write
    const timespec at_once{};
    while (!was_waiting_ && sigtimedwait(&signals_, nullptr, &at_once) < 0 && errno == EINTR)
      continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  FileSizeSignal(const FileSizeSignal&) = delete;
  FileSizeSignal& operator=(const FileSizeSignal&) = delete;

 private:
  sigset_t signals_, before_;
  bool was_waiting_;  // not ours to take away
};

}  // namespace yotta
