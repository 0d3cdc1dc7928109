#include "runner/grade.hpp"

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
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <stdexcept>
#include <thread>

namespace fs = std::filesystem;

namespace runner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t noted_signal = 0;

// While it lives these signals are noted and nothing more: a terminal's Ctrl-C reaches us, but not the group of
// processes that we have started, and we must end that first.
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

[[noreturn]] void become_limited(const std::vector<std::string>& command, int output) {
  setpgid(0, 0);  // a group of its own, to be killed whole
  for (const int each : ending_signals) std::signal(each, SIG_DFL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0), dup2(output, 1), dup2(output, 2);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  _exit(127);
}

// At most the last bytes of a file.
std::string tail(std::FILE* file, long most) {
  std::fseek(file, 0, SEEK_END);
  std::fseek(file, std::max(0L, std::ftell(file) - most), SEEK_SET);
  std::string text(static_cast<size_t>(most), '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

// The record's "\n" and "\\" as they were.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size();
    plain += !escape ? text[i] : text[++i] == 'n' ? '\n' : text[i];
  }
  return plain;
}

struct Record {
  std::vector<CaseResult> cases;
  std::string inside;  // the case that was running when the program ended; empty: none
  bool ended = false;
};

// A file's name beside a program that no other run has; the file is gone at the end.
class RecordFile {
 public:
  explicit RecordFile(const std::string& program) : path_(program + ".record.XXXXXX") {
    const int file = mkstemp(path_.data());
    if (file < 0)
      throw CouldNotGrade(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
    close(file);
  }
  ~RecordFile() { unlink(path_.c_str()); }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Record read_record(const std::string& path) {
  Record record;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    if (second == std::string::npos) continue;
    const std::string what = line.substr(0, first);
    const std::string name = line.substr(first + 1, second - first - 1);
    if (what == "start") record.inside = name;
    if (what == "end") record.ended = true;
    if (what != "passed" && what != "failed") continue;
    record.cases.push_back(
        {name, what == "passed", in_plain_words(unescaped(line.substr(second + 1)))});
    record.inside.clear();
  }
  return record;
}

std::string why_it_ended(const Ending& ending, double seconds) {
  if (ending.too_late)
    return fmt::format(
        "it did not end within {:g} s: a loop that never ends, or a rank that waits in a "
        "loop of its own",
        seconds);
  if (ending.signal == SIGSEGV || ending.signal == SIGBUS)
    return fmt::format(
        "it crashed with {} ({}): an address that is not yours. An index past the end, a chunk "
        "written where it has no room, or a pointer that is null?",
        ending.signal == SIGSEGV ? "SIGSEGV" : "SIGBUS", strsignal(ending.signal));
  if (ending.signal == SIGABRT)
    return "it crashed with SIGABRT: memory was overwritten, or an exception left a place where "
           "none may\n" +
           ending.output;
  if (ending.signal != 0)
    return fmt::format("it crashed with signal {} ({})", ending.signal, strsignal(ending.signal));
  return fmt::format("it ended the whole program with status {}", ending.status);
}

// For doctest's filter, which takes a comma for the end of a name; ? stands for any letter.
std::string pattern(std::string name) {
  std::replace(name.begin(), name.end(), ',', '?');
  return name;
}

void add_points(const Exercise& exercise, Grade& grade) {
  for (const Task& task : exercise.tasks) {
    TaskResult result{task};
    for (const CaseResult& one : grade.cases) {
      if (one.task() != task.id) continue;
      ++result.cases;
      result.passed += one.passed;
    }
    if (result.cases > 0 && result.passed == result.cases) result.points = task.points;
    grade.points += result.points;
    grade.of += task.points;
    grade.tasks.push_back(result);
  }
}

}  // namespace

std::string in_plain_words(const std::string& text) {
  static const std::regex ranks(
      R"((graded_ranks\.hpp|tests\.cpp):\d+: rank (\d+) failed: (tests\.cpp:\d+: )?)");
  static const std::regex begins(R"(adapter\.cpp:\d+: )"), inside(R"( at adapter\.cpp:\d+)");
  const std::string plain = std::regex_replace(text, ranks, "rank $2: ");
  return std::regex_replace(std::regex_replace(plain, begins, ""), inside, " in your function");
}

Ending run_limited(const std::vector<std::string>& command, double seconds) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(std::tmpfile(), std::fclose);
  if (output == nullptr)
    throw std::runtime_error(fmt::format("cannot make a file for the output of {} in {}: {}",
                                         command[0], P_tmpdir, std::strerror(errno)));
  std::fflush(nullptr);
  const SignalsNoted noted;
  const auto limit = Clock::now() + std::chrono::duration<double>(seconds);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start another process");
  if (child == 0) become_limited(command, fileno(output.get()));
  setpgid(child, child);  // whoever comes first

  Ending ending;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > limit || noted_signal != 0) {
      ending.too_late = true;
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(-child, SIGKILL);  // whatever it has left behind
  if (noted_signal != 0) {
    std::signal(noted_signal, SIG_DFL);
    raise(noted_signal);
  }
  if (WIFEXITED(status)) ending.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  ending.output = tail(output.get(), 64 * 1024);
  return ending;
}

const CaseResult* Grade::first_failed() const {
  for (const CaseResult& one : cases)
    if (!one.passed) return &one;
  return nullptr;
}

Grade grade(const Exercise& exercise, const std::string& program, double seconds) {
  const RecordFile file(program);
  const std::string& path = file.path();
  std::vector<CaseResult> lost;  // the cases that ended the program, in order
  for (;;) {
    std::string without;
    for (const CaseResult& one : lost) without += (without.empty() ? "" : ",") + pattern(one.name);
    fs::remove(path);
    const Ending ending = run_limited({program, path, without}, seconds);
    const Record record = read_record(path);
    if (record.inside.empty() || lost.size() == 100) {
      Grade grade;
      grade.cases = record.cases;
      grade.cases.insert(grade.cases.end(), lost.begin(), lost.end());
      if (!record.ended)
        grade.cases.push_back(
            {"the program", false, why_it_ended(ending, seconds) + "\n" + ending.output});
      std::stable_sort(
          grade.cases.begin(), grade.cases.end(),
          [](const CaseResult& a, const CaseResult& b) { return a.task() < b.task(); });
      add_points(exercise, grade);
      return grade;
    }
    lost.push_back({record.inside, false, why_it_ended(ending, seconds)});
    if (ending.too_late) seconds = std::max(1.0, seconds / 2);  // patience wears out
  }
}

Grade fair_grade(const Exercise& exercise, const std::string& program,
                 const std::string& library_program, double seconds) {
  Grade result = grade(exercise, program, seconds);
  if (result.complete()) return result;
  const Grade library = grade(exercise, library_program, seconds);
  if (library.complete()) return result;
  const CaseResult* failed = library.first_failed();
  throw CouldNotGrade(
      failed == nullptr
          ? fmt::format("exercise.json and the cases of {} do not agree on its tasks", exercise.id)
          : fmt::format("the library's own solution fails a case, {}:\n{}", failed->name,
                        failed->message));
}

}  // namespace runner
