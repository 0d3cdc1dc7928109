#include "runner/grade.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <regex>

#include "course/cases/record.hpp"
#include "runner/memory_error.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

struct Record {
  std::vector<CaseResult> cases;
  std::string inside;  // the case that was running when the program ended; empty: none
  bool ended = false;  // and every line of it is there
};

Record read_record(const std::string& text, const std::string& key) {
  Record record;
  for (const record::Line& line : record::unsealed(text, key)) {
    if (line.what == "start") record.inside = line.name;
    if (line.what == "end") record.ended = true;
    if (line.what != "passed" && line.what != "failed" && line.what != "listed") continue;
    record.cases.push_back(
        {line.name, line.what == "passed", printable(in_plain_words(line.message))});
    record.inside.clear();
  }
  return record;
}

// Nobody can guess it.
std::string new_key() {
  std::random_device random;
  std::string key;
  while (key.size() < record::key_letters) key += fmt::format("{:08x}", random());
  return key;
}

struct Run {
  Record record;
  Ending ending;
};

Run run_program(const std::string& program, const std::vector<std::string>& words, double seconds,
                Wall wall, bool instrumented = false) {
  const std::string key = new_key();
  Limits limits;
  limits.seconds = seconds;
  limits.instrumented = instrumented;
  const Sandboxed run = run_sandboxed(program, words, key, limits, wall);
  return {read_record(run.record, key), run.ending};
}

std::string why_it_ended(const std::string& program, const Ending& ending, double seconds) {
  if (const std::string error = memory_error(ending.output, program); !error.empty()) return error;
  if (!ending.stopped.empty()) return ending.stopped;
  if (ending.too_late)
    return fmt::format(
        "it did not end within {:g} s: a loop that never ends, or a rank that waits in a "
        "loop of its own",
        seconds);
  if (ending.signal == SIGSEGV || ending.signal == SIGBUS)
    return fmt::format(
        "it crashed with {} ({}): an address that is not yours. An index past the end, a chunk "
        "written where it has no room, a pointer that is null, or a function that calls itself "
        "without end, until the stack is full?",
        ending.signal == SIGSEGV ? "SIGSEGV" : "SIGBUS", strsignal(ending.signal));
  if (ending.signal == SIGABRT)
    return "it crashed with SIGABRT: memory was overwritten, or an exception left a place where "
           "none may\n" +
           ending.output;
  if (ending.signal != 0)
    return fmt::format("it crashed with signal {} ({})", ending.signal, strsignal(ending.signal));
  return fmt::format("it ended the whole program, with status {}: a graded function returns",
                     ending.status);
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

// Of the tasks that this one needs and that are not solved, the first that waits for no other;
// empty: none.
std::string first_to_mend(const Task& task, const std::vector<TaskResult>& all) {
  const auto needed_and_open = [](const Task& by, const TaskResult& other) {
    return !other.solved && has(by.needs, other.task.id);
  };
  for (const TaskResult& one : all) {
    const bool waits = std::any_of(all.begin(), all.end(), [&](const TaskResult& other) {
      return needed_and_open(one.task, other);
    });
    if (needed_and_open(task, one) && !waits) return one.task.id;
  }
  return "";
}

// A task that needs another which is not solved may fail for that one's mistakes: its messages say
// so before all else.
void say_what_to_mend_first(Grade& grade) {
  for (TaskResult& result : grade.tasks)
    if (!result.solved) result.mend_first = first_to_mend(result.task, grade.tasks);
  for (CaseResult& one : grade.cases) {
    if (one.passed || is_not_begun(one) || one.message == did_not_run) continue;
    for (const TaskResult& result : grade.tasks) {
      if (one.task() != result.task.id || result.mend_first.empty()) continue;
      one.needs_mending = true;
      one.message = fmt::format("mend {} first: {} uses it\n{}", result.mend_first, result.task.id,
                                one.message);
    }
  }
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
  say_what_to_mend_first(grade);
  return grade;
}

// Runs the cases, and again without those that end the program. `how`: see
// course/cases/exercise_main.cpp. `said` receives what the program printed in its first run.
std::vector<CaseResult> run_cases(const std::string& program, double seconds, Wall wall,
                                  const std::string& how = "", std::string* said = nullptr,
                                  bool instrumented = false) {
  std::vector<CaseResult> lost;  // the cases that ended the program, in order
  for (;;) {
    std::string without;
    for (const CaseResult& one : lost) without += (without.empty() ? "" : ",") + pattern(one.name);
    const auto [record, ending] = run_program(program, {without, how}, seconds, wall, instrumented);
    if (said != nullptr && lost.empty()) *said = printable(without_report(ending.output));
    if (record.inside.empty() || lost.size() == 100) {
      std::vector<CaseResult> cases = lost;
      if (record.ended)
        cases.insert(cases.end(), record.cases.begin(), record.cases.end());
      else  // nobody knows whether the lines that are there are all
        cases.push_back({whole_program, false,
                         printable(why_it_ended(program, ending, seconds) + "\n" + ending.output)});
      std::stable_sort(cases.begin(), cases.end(), [](const CaseResult& a, const CaseResult& b) {
        return a.task() < b.task();
      });
      return cases;
    }
    lost.push_back({record.inside, false, printable(why_it_ended(program, ending, seconds))});
    if (ending.too_late) seconds = std::max(1.0, seconds / 2);  // patience wears out
  }
}

constexpr double list_seconds = 60;  // to list the cases: a busy machine needs long to begin

// The names of a program's cases, which are not run. Half a list would take cases from a student.
std::vector<std::string> case_names(const std::string& program, Wall wall) {
  const auto [record, ending] = run_program(program, {"", "list"}, list_seconds, wall);
  if (!record.ended)
    throw CouldNotGrade("the library's program does not list its cases: " +
                        why_it_ended(program, ending, list_seconds));
  std::vector<std::string> names;
  for (const CaseResult& one : record.cases) names.push_back(one.name);
  return names;
}

// What the files of an exercise hold; empty: there is no such folder.
std::string state_of(const std::string& folder) {
  std::map<std::string, uint64_t> files;
  if (!folder.empty() && fs::is_directory(folder))
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file())
        files[entry.path()] = record::SipHash(0, 0).of(read_text(entry.path()));
  return fmt::format("{}", files);
}

// Lists this program its cases behind this wall? A machine that is busy must not make the wall
// weaker.
bool works(const std::string& program, Wall wall) {
  const auto [record, ending] = run_program(program, {"", "list"}, list_seconds, wall);
  return record.ended && ending.well();
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
           fmt::format("'{}' is not a case of this exercise; it does not count", one.name)});
  }
  return kept;
}

}  // namespace

std::string pattern(std::string name) {
  std::replace(name.begin(), name.end(), ',', '?');
  return name;
}

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

bool is_not_begun(const CaseResult& one) {
  return one.message.find("is not done yet") != std::string::npos &&
         lines_of(one.message).size() == 1;
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

Wall wall_for(const std::string& program) {
  static std::optional<Wall> known;
  for (const Wall wall : {Wall::bubblewrap, Wall::seccomp, Wall::limits})
    if (!known && works(program, wall)) known = wall;
  return known.value_or(Wall::bubblewrap);  // the program is broken: nothing weaker is tried
}

Grade grade(const Exercise& exercise, const std::string& program, double seconds,
            std::optional<Wall> wall) {
  const Wall chosen = wall ? *wall : wall_for(program);
  Grade result = with_points(exercise, run_cases(program, seconds, chosen), {});
  result.sandbox = name(chosen);
  return result;
}

std::vector<std::string> passed_by_nothing(const std::string& starter_program, double seconds) {
  std::vector<std::string> names;
  const Wall wall = wall_for(starter_program);
  for (const CaseResult& one : run_cases(starter_program, seconds, wall, "empty"))
    if (one.passed) names.push_back(one.name);
  return names;
}

Grade fair_grade(const Exercise& exercise, const std::string& program,
                 const std::string& library_program, const std::vector<std::string>& by_nothing,
                 double seconds) {
  const std::string before = state_of(exercise.folder);
  const Wall wall = wall_for(library_program);
  std::string output;
  const double patient = exercise.asan ? 4 * seconds : seconds;  // instrumented code takes longer
  const std::vector<CaseResult> cases =
      run_cases(program, patient, wall, "", &output, exercise.asan);
  if (state_of(exercise.folder) != before)
    throw CouldNotGrade(fmt::format(
        "files in exercises/{} have changed while the student's program ran. Look at them (git "
        "status), and check again",
        exercise.id));
  Grade result = with_points(exercise, only(case_names(library_program, wall), cases), by_nothing);
  result.output = output;
  result.sandbox = name(wall);
  if (result.complete()) return result;
  const Grade library =
      with_points(exercise, run_cases(library_program, seconds, wall, "reference"), {});
  const CaseResult* failed = library.first_failed();
  if (library.complete() && failed == nullptr) return result;
  if (failed != nullptr && failed->message.find("did not end within") != std::string::npos)
    throw CouldNotGrade(fmt::format(
        "this machine is too busy: the library's own solution was not done in time either, with "
        "{}. It is not your file; try again when less runs beside it",
        failed->name));
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
