#include "course/shared/requeue.hpp"

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
using Handler = void (*)(int);
Handler before_usr1 = SIG_DFL, before_term = SIG_DFL;
void note(int signal) { noted = signal; }
}  // namespace

StopSignals::StopSignals() {
  noted = 0;
  before_usr1 = std::signal(SIGUSR1, note);
  before_term = std::signal(SIGTERM, note);
  sigset_t both;  // those that waited since this program was started (HeldSignals)
  sigemptyset(&both);
  sigaddset(&both, SIGUSR1), sigaddset(&both, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
}
StopSignals::~StopSignals() {
  std::signal(SIGUSR1, before_usr1);
  std::signal(SIGTERM, before_term);
}
int StopSignals::seen() { return noted; }

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
