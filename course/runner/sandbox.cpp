#include "runner/sandbox.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "runner/seccomp.hpp"

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

// The descriptors of a program's side, beside the usual three.
constexpr int channel = 3, lines_channel = 4, filter_file = 5;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // the shadow of the memory takes terabytes of addresses
#else
constexpr bool sanitized = false;
#endif

// What is only reserved is no memory, but the tables that name its pages are.
constexpr int64_t addresses_per_byte = 16;

// The library switches stacks without a word to AddressSanitizer, whose report is made readable by
// us: it can start no program here. Frames of the library have no frame pointers.
constexpr const char* asan_options =
    "detect_leaks=0:detect_stack_use_after_return=0:symbolize=0:fast_unwind_on_malloc=0:"
    "handle_abort=0:quarantine_size_mb=64:allocator_may_return_null=0:color=never";

// Both ends of a channel: ours never blocks.
class Channel {
 public:
  Channel() {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0)
      throw std::runtime_error(fmt::format("cannot make a channel: {}", std::strerror(errno)));
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Channel() {
    close_theirs();
    close(ends_[0]);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int theirs() const { return ends_[1]; }
  void close_theirs() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  // A key is so short that the channel always has room for it.
  void send_key(const std::string& key) {
    if (send(ends_[0], key.data(), key.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(key.size()))
      throw std::runtime_error("cannot hand over the key of a record");
  }
  // Takes what has come. False: nobody is left at the other end.
  bool take() {
    char bytes[1 << 16];
    for (;;) {
      const ssize_t more = recv(ends_[0], bytes, sizeof bytes, 0);
      if (more <= 0) return more < 0 && errno != ECONNRESET;
      record_.append(bytes, static_cast<size_t>(more));
    }
  }
  const std::string& record() const { return record_; }
  // The next whole line of what has come; it is taken out of the record. Empty: none, or it is
  // longer.
  std::string take_line(size_t longest) {
    take();
    if (record_.size() > longest) record_.clear();
    const size_t end = record_.find('\n') + 1;  // 0: none
    const std::string line = record_.substr(0, end);
    record_.erase(0, end);
    return line;
  }
  // To a program that waits for it.
  void answer(const std::string& text) {
    fcntl(ends_[0], F_SETFL, 0);
    send(ends_[0], text.data(), text.size(), MSG_NOSIGNAL);
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }

 private:
  int ends_[2] = {-1, -1};
  std::string record_;
};

void limit(int what, int64_t most) {
  rlimit now = {};
  getrlimit(static_cast<__rlimit_resource_t>(what), &now);
  now.rlim_cur = now.rlim_max = std::min(now.rlim_max, static_cast<rlim_t>(most));
  setrlimit(static_cast<__rlimit_resource_t>(what), &now);
}

void set_limits(const Limits& limits) {
  const auto cores = static_cast<double>(std::max(1u, std::thread::hardware_concurrency()));
  limit(RLIMIT_CPU, static_cast<int64_t>((limits.seconds + 1) * cores) + 1);
  limit(RLIMIT_FSIZE, limits.output);
  limit(RLIMIT_NOFILE, limits.files);
  limit(RLIMIT_STACK, 8 << 20);
  if (sanitized || limits.instrumented) return;
  limit(RLIMIT_DATA, limits.memory);
  limit(RLIMIT_AS, addresses_per_byte * limits.memory);
}

// What a program may know of our environment.
void keep_few_variables() {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable)
    for (const char* name : {"PATH=", "LD_LIBRARY_PATH=", "LANG=", "LC_", "YOTTA_", "OMP_",
                             "ASAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS="})
      if (std::string(*variable).starts_with(name)) kept.emplace_back(*variable);
  clearenv();
  for (const std::string& variable : kept) {
    const size_t end = variable.find('=');
    setenv(variable.substr(0, end).c_str(), variable.c_str() + end + 1, 1);
  }
}

// No lock, no output of the grader's stays open for the program.
void keep_channels_alone(int theirs, int lines) {
  const int from = fcntl(theirs, F_DUPFD, filter_file + 1),
            lines_from = fcntl(lines, F_DUPFD, filter_file + 1);
  dup2(from, channel), dup2(lines_from, lines_channel);  // which stay open for the program
  close_range(lines_channel + 1, ~0u, 0);
}

// A program with kernels asks for its source lines, and may not start addr2line itself: see
// Sites::said_of.
void answer_lines(Channel& talk, const std::string& program) {
  constexpr size_t longest = 4096;
  const std::string asked = talk.take_line(longest);
  if (asked.empty()) return;
  Command command = {"addr2line", "-a", "-i", "-e", program};
  std::istringstream words(asked);
  for (std::string word; words >> word;) {
    if (!word.starts_with("0x") || word.find_first_not_of("0123456789abcdefx") != word.npos) return;
    command.push_back(word);
  }
  talk.answer(run_limited(command, 10, 1 << 20).output + "\n");
}

// For bwrap, which reads the filter from a file.
void write_filter() {
  const std::vector<sock_filter> filter = filter_of_calls(/*alone=*/true);
  const int file = memfd_create("filter", 0);
  const size_t size = filter.size() * sizeof(sock_filter);
  if (file < 0 || write(file, filter.data(), size) != static_cast<ssize_t>(size)) _exit(127);
  lseek(file, 0, SEEK_SET);
  if (file != filter_file) dup2(file, filter_file), close(file);
}

// In the child.
void enter(const Limits& limits, Wall wall, int theirs, int lines) {
  keep_channels_alone(theirs, lines);
  keep_few_variables();
  setenv("YOTTA_ADDR2LINE", std::to_string(lines_channel).c_str(), 1);
  if (limits.instrumented) setenv("ASAN_OPTIONS", asan_options, 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with us
  set_limits(limits);
  if (wall == Wall::bubblewrap) write_filter();
  if (wall == Wall::seccomp && !obey(filter_of_calls(/*alone=*/false))) _exit(127);
}

Command command_of(const std::string& program, const std::vector<std::string>& words,
                   const Limits& limits, Wall wall) {
  const std::string path = std::filesystem::absolute(program);
  const std::string folder = std::filesystem::path(path).parent_path();
  Command command;
  if (wall == Wall::bubblewrap) {
    command = {"bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"};
    for (const char* place : {"/usr", "/lib", "/lib32", "/lib64", "/bin", "/opt", "/nix/store",
                              "/etc/ld.so.cache", "/sys/devices/system/cpu"})
      command.insert(command.end(), {"--ro-bind-try", place, place});
    command.insert(command.end(), {"--proc",
                                   "/proc",
                                   "--dev",
                                   "/dev",
                                   "--size",
                                   std::to_string(limits.output),
                                   "--tmpfs",
                                   "/tmp",
                                   "--ro-bind",
                                   folder,
                                   folder,
                                   "--remount-ro",
                                   "/dev",
                                   "--remount-ro",
                                   "/",
                                   "--chdir",
                                   "/tmp",
                                   "--seccomp",
                                   std::to_string(filter_file),
                                   "--"});
  }
  command.insert(command.end(), {path, std::to_string(channel)});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// Of a process and all that it has started.
struct Used {
  int64_t bytes = 0;  // with the tables that name its pages
  int64_t threads = 0;
};
// A number of /proc/PROCESS/status, in the unit that stands there.
int64_t status_of(const std::string& folder, const std::string& field) {
  std::ifstream status(folder + "/status");
  for (std::string word; status >> word;)
    if (int64_t number = 0; word == field && status >> number) return number;
  return 0;
}
Used used_by(int process) {
  const std::string folder = fmt::format("/proc/{}", process);
  int64_t pages = 0, ignored = 0;
  std::ifstream(folder + "/statm") >> ignored >> pages;
  Used used{pages * sysconf(_SC_PAGESIZE) + (status_of(folder, "VmPTE:") << 10),
            status_of(folder, "Threads:")};
  std::ifstream children(fmt::format("{}/task/{}/children", folder, process));
  for (int child = 0; children >> child;) {
    const Used more = used_by(child);
    used.bytes += more.bytes, used.threads += more.threads;
  }
  return used;
}

// bwrap's status is that of a shell.
void undo_shell_status(Ending& ending) {
  if (ending.signal != 0 || ending.status <= 128 || ending.status > 128 + 64) return;
  ending.signal = ending.status - 128;
  ending.status = 0;
}

std::string in_mb(int64_t bytes) { return fmt::format("{} MB", bytes >> 20); }

}  // namespace

const char* name(Wall wall) {
  const char* const names[] = {"bubblewrap", "seccomp", "limits"};
  return names[static_cast<int>(wall)];
}

Sandboxed run_sandboxed(const std::string& program, const std::vector<std::string>& words,
                        const std::string& key, const Limits& limits, Wall wall) {
  Channel talk, lines;
  talk.send_key(key);
  auto looked = Clock::now();
  const auto watch = [&](int child) -> std::string {
    talk.close_theirs(), lines.close_theirs();
    talk.take();
    answer_lines(lines, program);
    if (static_cast<int64_t>(talk.record().size()) > limits.record)
      return fmt::format("it wrote more than {} to the grader", in_mb(limits.record));
    if (Clock::now() - looked < std::chrono::milliseconds(20)) return "";
    looked = Clock::now();
    const Used used = used_by(child);
    if (used.threads > limits.threads)
      return fmt::format("it ran more than {} threads", limits.threads);
    if (used.bytes <= limits.memory * (sanitized || limits.instrumented ? 4 : 1)) return "";
    return fmt::format("it held more than {} of memory", in_mb(limits.memory));
  };
  Watched watched{limits.seconds};
  watched.before = [&] { enter(limits, wall, talk.theirs(), lines.theirs()); };
  watched.watch = watch;
  Sandboxed result{run_watched(command_of(program, words, limits, wall), watched), ""};
  talk.close_theirs();
  const auto end = Clock::now() + std::chrono::seconds(1);
  while (talk.take() && Clock::now() < end)  // until all that it has started is gone
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (wall == Wall::bubblewrap) undo_shell_status(result.ending);
  if (result.ending.signal == SIGXFSZ)
    result.ending.stopped = fmt::format("it printed more than {}", in_mb(limits.output));
  result.record = talk.record();
  return result;
}

}  // namespace runner
