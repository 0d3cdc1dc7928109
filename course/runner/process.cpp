#include "runner/process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <thread>

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t noted_signal = 0;

// While it lives these signals are noted and nothing more: a terminal's Ctrl-C reaches us, but not
// the group of processes that we have started, and we must end that first.
class SignalsNoted {
 public:
  SignalsNoted() {
    noted_signal = 0;
    for (size_t i = 0; i < std::size(ending_signals); ++i) {
      before_[i] = std::signal(ending_signals[i], [](int signal) { noted_signal = signal; });
      if (before_[i] == SIG_IGN) std::signal(ending_signals[i], SIG_IGN);  // as under nohup
    }
  }
  ~SignalsNoted() {
    for (size_t i = 0; i < std::size(ending_signals); ++i)
      std::signal(ending_signals[i], before_[i]);
  }

 private:
  void (*before_[std::size(ending_signals)])(int) = {};
};

[[noreturn]] void become_watched(const Command& command, int output,
                                 const std::function<void()>& before) {
  setsid();  // a group of its own, to be killed whole, and no terminal to type into
  for (const int each : ending_signals) std::signal(each, SIG_DFL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0), dup2(output, 1), dup2(output, 2);
  if (before) before();
  _exit(become(command));
}

// At most the last bytes of a file.
std::string tail(std::FILE* file, long most) {
  std::fseek(file, 0, SEEK_END);
  std::fseek(file, std::max(0L, std::ftell(file) - most), SEEK_SET);
  std::string text(static_cast<size_t>(most), '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

// The child's status, once it has ended or has been ended.
int wait_for(pid_t child, const Watched& watched, Ending& ending) {
  const auto limit = Clock::now() + std::chrono::duration<double>(watched.seconds);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    ending.too_late = Clock::now() > limit || noted_signal != 0;
    if (watched.watch && !ending.too_late) ending.stopped = watched.watch(child);
    if (ending.too_late || !ending.stopped.empty()) {
      kill(child, SIGKILL);  // it may have no group yet
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status;
}

}  // namespace

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

Ending run_watched(const Command& command, const Watched& watched) {
  const std::string& name = watched.output_file;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(
      name.empty() ? std::tmpfile() : std::fopen(name.c_str(), "w+"), std::fclose);
  if (output == nullptr)
    throw std::runtime_error(fmt::format("cannot make a file for the output of {} in {}: {}",
                                         command[0], name.empty() ? P_tmpdir : name,
                                         std::strerror(errno)));
  std::fflush(nullptr);
  const SignalsNoted noted;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start another process");
  if (child == 0) become_watched(command, fileno(output.get()), watched.before);

  Ending ending;
  const int status = wait_for(child, watched, ending);
  kill(-child, SIGKILL);  // whatever it has left behind
  if (noted_signal != 0) {
    std::signal(noted_signal, SIG_DFL);
    raise(noted_signal);
  }
  if (WIFEXITED(status)) ending.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  ending.output = tail(output.get(), watched.most_output);
  return ending;
}

Ending run_limited(const Command& command, double seconds, long most_output) {
  return run_watched(command, {seconds, most_output});
}

}  // namespace runner
