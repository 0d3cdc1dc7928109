#include "runner/grade.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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
#include <random>
#include <regex>
#include <stdexcept>
#include <thread>

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

// Words that nobody can guess, one for each line of a record; see course/shared/exercise_main.cpp.
std::vector<std::string> new_words() {
  constexpr int lines = 2000;
  std::random_device random;
  std::vector<std::string> words;
  for (int i = 0; i < lines; ++i) words.push_back(fmt::format("{:08x}{:08x}", random(), random()));
  return words;
}

// A record's file beside a program, which no other run has, and that of its words; both are gone at the end.
class RecordFile {
 public:
  explicit RecordFile(const std::string& program)
      : path_(program + ".record.XXXXXX"), words_(new_words()) {
    const int file = mkstemp(path_.data());
    if (file < 0)
      throw CouldNotGrade(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
    close(file);
    write_text(path_ + ".words", fmt::format("{}\n", fmt::join(words_, "\n")));
  }
  ~RecordFile() {
    unlink(path_.c_str());
    unlink((path_ + ".words").c_str());
  }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  const std::string& path() const { return path_; }

  // What is written with the words, each in its turn.
  Record read() const {
    Record record;
    size_t turn = 0;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line) && turn < words_.size();) {
      if (!line.starts_with(words_[turn] + "\t")) continue;
      add_line(line.substr(words_[turn++].size() + 1), record);
    }
    return record;
  }

 private:
  static void add_line(const std::string& line, Record& record) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1);
    if (second == std::string::npos) return;
    const std::string what = line.substr(0, first);
    const std::string name = line.substr(first + 1, second - first - 1);
    if (what == "start") record.inside = name;
    if (what == "end") record.ended = true;
    if (what != "passed" && what != "failed" && what != "listed") return;
    record.cases.push_back(
        {name, what == "passed", printable(in_plain_words(unescaped(line.substr(second + 1))))});
    record.inside.clear();
  }

  std::string path_;
  std::vector<std::string> words_;
};

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

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// For doctest's filter, which takes a comma for the end of a name; ? stands for any letter.
std::string pattern(std::string name) {
  std::replace(name.begin(), name.end(), ',', '?');
  return name;
}

// By their weights, what the cases of a task have earned, of how much.
struct Earned {
  int points = 0, of = 0;
};

// `worked`: some case of the exercise has passed that a file with empty parts does not pass.
Earned earned_in(const Task& task, const std::vector<CaseResult>& cases, bool worked) {
  Earned all, by_work;  // without the cases that need others
  for (const CaseResult& one : cases) {
    if (one.task() != task.id) continue;
    const int points = one.passed ? one.weight : 0;
    all.of += one.weight, all.points += points;
    if (!one.needs_others) by_work.of += one.weight, by_work.points += points;
  }
  const bool others_passed = by_work.of > 0 ? by_work.points == by_work.of : worked;
  return {others_passed ? all.points : by_work.points, all.of};
}

Grade with_points(const Exercise& exercise, std::vector<CaseResult> cases,
                  const std::vector<std::string>& by_nothing) {
  Grade grade{std::move(cases), {}};
  bool worked = by_nothing.empty();
  for (CaseResult& one : grade.cases) {
    one.needs_others = has(by_nothing, one.name);
    worked = worked || (one.passed && !one.needs_others);
  }
  for (const Task& task : exercise.tasks) {
    TaskResult result{task};
    for (CaseResult& one : grade.cases) {
      if (one.task() != task.id) continue;
      one.weight = task.weight(one.name);
      ++result.cases;
      result.passed += one.passed;
    }
    const Earned earned = earned_in(task, grade.cases, worked);
    result.solved = earned.of > 0 && earned.points == earned.of;
    if (earned.of > 0) result.points = task.points * earned.points / earned.of;
    grade.points += result.points;
    grade.of += task.points;
    grade.tasks.push_back(result);
  }
  return grade;
}

// Runs the cases, and again without those that end the program. `how`: see course/shared/exercise_main.cpp.
// `said` receives what the program printed in its first run.
std::vector<CaseResult> run_cases(const std::string& program, double seconds,
                                  const std::string& how = "", std::string* said = nullptr) {
  std::vector<CaseResult> lost;  // the cases that ended the program, in order
  for (;;) {
    const RecordFile file(program);
    std::string without;
    for (const CaseResult& one : lost) without += (without.empty() ? "" : ",") + pattern(one.name);
    const Ending ending = run_limited({program, file.path(), without, how}, seconds);
    const Record record = file.read();
    if (said != nullptr && lost.empty()) *said = printable(ending.output);
    if (record.inside.empty() || lost.size() == 100) {
      std::vector<CaseResult> cases = record.cases;
      cases.insert(cases.end(), lost.begin(), lost.end());
      if (!record.ended)
        cases.push_back({whole_program, false,
                         printable(why_it_ended(ending, seconds) + "\n" + ending.output)});
      std::stable_sort(cases.begin(), cases.end(), [](const CaseResult& a, const CaseResult& b) {
        return a.task() < b.task();
      });
      return cases;
    }
    lost.push_back({record.inside, false, printable(why_it_ended(ending, seconds))});
    if (ending.too_late) seconds = std::max(1.0, seconds / 2);  // patience wears out
  }
}

// The names of a program's cases, which are not run.
std::vector<std::string> case_names(const std::string& program, double seconds) {
  const RecordFile file(program);
  run_limited({program, file.path(), "", "list"}, seconds);
  std::vector<std::string> names;
  for (const CaseResult& one : file.read().cases) names.push_back(one.name);
  return names;
}

// The case of this name, of all that a student's program has under it.
CaseResult case_of(const std::string& name, const std::vector<CaseResult>& cases) {
  CaseResult result{name, false, did_not_run};
  bool found = false;
  for (const CaseResult& one : cases) {
    if (one.name != name || (found && !result.passed)) continue;
    result = one;
    found = true;
  }
  return result;
}

std::vector<CaseResult> only(const std::vector<std::string>& names,
                             const std::vector<CaseResult>& cases) {
  std::vector<CaseResult> kept;
  for (const std::string& name : names) kept.push_back(case_of(name, cases));
  for (const CaseResult& one : cases) {
    if (one.name == whole_program)
      kept.push_back(one);
    else if (!has(names, one.name))
      kept.push_back(
          {whole_program, false,
           fmt::format("'{}' is no case of this exercise; it does not count", one.name)});
  }
  return kept;
}

}  // namespace

std::string printable(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]),
               before = static_cast<unsigned char>(i > 0 ? text[i - 1] : 0);
    const bool wide_control = before == 0xc2 && byte >= 0x80 && byte < 0xa0;  // in UTF-8
    if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f || wide_control) text[i] = '?';
  }
  return text;
}

std::string in_plain_words(const std::string& text) {
  static const std::regex ranks(R"((graded_ranks\.hpp|tests\.cpp):\d+: rank (\d+) failed: )"
                                R"(((graded_ranks\.hpp|tests\.cpp):\d+: )?)");
  static const std::regex begins(R"(adapter\.cpp:\d+: )"), inside(R"( at adapter\.cpp:\d+)");
  const std::string plain = std::regex_replace(text, ranks, "rank $2: ");
  return std::regex_replace(std::regex_replace(plain, begins, ""), inside, " in your function");
}

Ending run_limited(const std::vector<std::string>& command, double seconds, long most_output) {
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
  ending.output = tail(output.get(), most_output);
  return ending;
}

bool Grade::complete() const {
  const auto solved = [](const TaskResult& task) { return task.solved; };
  return !tasks.empty() && std::all_of(tasks.begin(), tasks.end(), solved);
}

const CaseResult* Grade::first_failed() const {
  for (const CaseResult& one : cases)
    if (!one.passed) return &one;
  return nullptr;
}

const CaseResult* Grade::first_failed(const std::string& task) const {
  const CaseResult* remark = nullptr;
  for (const CaseResult& one : cases) {
    if (one.passed || one.task() != task) continue;
    if (one.weight > 0) return &one;
    if (remark == nullptr) remark = &one;
  }
  return remark;
}

Grade grade(const Exercise& exercise, const std::string& program, double seconds) {
  return with_points(exercise, run_cases(program, seconds), {});
}

std::vector<std::string> passed_by_nothing(const std::string& starter_program, double seconds) {
  std::vector<std::string> names;
  for (const CaseResult& one : run_cases(starter_program, seconds, "empty"))
    if (one.passed) names.push_back(one.name);
  return names;
}

Grade fair_grade(const Exercise& exercise, const std::string& program,
                 const std::string& library_program, const std::vector<std::string>& by_nothing,
                 double seconds) {
  std::string output;
  const std::vector<CaseResult> cases = run_cases(program, seconds, "", &output);
  Grade result =
      with_points(exercise, only(case_names(library_program, seconds), cases), by_nothing);
  result.output = output;
  if (result.complete()) return result;
  const Grade library = grade(exercise, library_program, seconds);
  const CaseResult* failed = library.first_failed();
  if (library.complete() && failed == nullptr) return result;
  throw CouldNotGrade(
      failed == nullptr
          ? fmt::format("exercise.json and the cases of {} do not agree on its tasks", exercise.id)
          : fmt::format("the library's own solution fails a case, {}:\n{}", failed->name,
                        failed->message));
}

void take_hint_points(const Exercise& exercise, const std::map<std::string, int>& hints_read,
                      Grade& grade) {
  for (TaskResult& result : grade.tasks) {
    const auto found = hints_read.find(result.task.id);
    if (found == hints_read.end()) continue;
    result.hint_points = std::min(result.points, found->second * exercise.points_per_hint);
    result.points -= result.hint_points;
    grade.points -= result.hint_points;
  }
}

}  // namespace runner
