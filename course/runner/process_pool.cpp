#include "runner/process_pool.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <list>
#include <stdexcept>
#include <thread>

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t told_to_stop = 0;

// While it lives, a signal that would end us is noted.
class StopsNoted {
 public:
  StopsNoted() {
    told_to_stop = 0;
    for (size_t i = 0; i < std::size(signals); ++i)
      before_[i] = std::signal(signals[i], [](int) { told_to_stop = 1; });
  }
  ~StopsNoted() {
    for (size_t i = 0; i < std::size(signals); ++i) std::signal(signals[i], before_[i]);
  }
  StopsNoted(const StopsNoted&) = delete;
  StopsNoted& operator=(const StopsNoted&) = delete;

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  void (*before_[std::size(signals)])(int) = {};
};

struct Running {
  const PoolJob* job = nullptr;
  pid_t process = 0;
  Clock::time_point limit;
};

[[noreturn]] void become_job(const PoolJob& job) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a runner that is told to end ends what it has started
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) std::signal(each, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  const int log = open(job.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  dup2(nothing, 0), dup2(log, 1), dup2(log, 2);
  _exit(become(job.command));
}

Running start(const PoolJob& job) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start another process");
  if (child == 0) become_job(job);
  setpgid(child, child);  // whoever comes first
  const auto time = std::chrono::duration<double>(job.seconds);
  return {&job, child, Clock::now() + std::chrono::duration_cast<Clock::duration>(time)};
}

// First so that it can end its own children, then so that it cannot refuse.
void stop(const Running& one) {
  kill(-one.process, SIGTERM);
  for (int i = 0; i < 300; ++i) {
    if (waitpid(one.process, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(-one.process, SIGKILL);
  waitpid(one.process, nullptr, 0);
}

// True: it has ended, or was ended.
bool over(const Running& one) {
  int status = 0;
  if (waitpid(one.process, &status, WNOHANG) != 0) {
    one.job->ended(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return true;
  }
  if (Clock::now() < one.limit) return false;
  stop(one);
  one.job->ended(-1);
  return true;
}

}  // namespace

bool run_pool(const std::vector<PoolJob>& jobs, int most) {
  const StopsNoted noted;
  std::list<Running> running;
  auto next = jobs.begin();
  while (told_to_stop == 0 && (next != jobs.end() || !running.empty())) {
    while (next != jobs.end() && std::ssize(running) < most) running.push_back(start(*next++));
    running.remove_if(over);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const Running& one : running) stop(one);
  return told_to_stop == 0;
}

}  // namespace runner
