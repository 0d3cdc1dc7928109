#include "course/training/requeue.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <string>

extern char** environ;

namespace yotta {

namespace {
volatile std::sig_atomic_t noted = 0;
void note(int signal) { noted = signal; }
}  // namespace

void note_stop_signals() {
  std::signal(SIGUSR1, note);
  std::signal(SIGTERM, note);
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1), sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
}
int stop_signal_seen() { return noted; }

std::string requeue_by_slurm() {
  const char* const job = std::getenv("SLURM_JOB_ID");
  if (job == nullptr) return "";
  std::string words[] = {"scontrol", "requeue", job};
  char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t process = 0;
  int status = 1;
  const bool started =
      posix_spawnp(&process, "scontrol", nullptr, nullptr, arguments, environ) == 0 &&
      waitpid(process, &status, 0) == process;
  return started && status == 0
             ? fmt::format("Slurm was asked to start job {} again", job)
             : fmt::format("scontrol requeue {} failed: start the job again by hand", job);
}

}  // namespace yotta
