#include "runner/check.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "course/shared/console.hpp"
#include "runner/compile_errors.hpp"
#include "runner/grade.hpp"
#include "runner/places.hpp"
#include "runner/solution.hpp"
#include "runner/topics.hpp"
#include "runner/verdict.hpp"

namespace fs = std::filesystem;
using yotta::console::Color;
using yotta::console::paint;

namespace runner {
namespace {

constexpr int could_not_grade = 3;  // exit status
constexpr const char* no_open_task = "none";

// What a student's program says may be no text.
std::string json_text(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// What is remembered between two checks, in work/NN_topic/.state.json: the starter that the student's
// file was copied from, the task that is open, the hints that were shown, the tasks of the last version that compiled.
// Older files hold less, and students edit what they like: what is not as expected counts as not there.
class State {
 public:
  explicit State(const nlohmann::json& json)
      : json_(json.is_object() ? json : nlohmann::json::object()) {}

  std::string text(const char* key) const {
    return json_.contains(key) && json_[key].is_string() ? json_[key].get<std::string>() : "";
  }
  nlohmann::json value(const char* key) const { return json_.value(key, nlohmann::json()); }
  int hints(const std::string& task) const {
    const nlohmann::json count = json_.value("hints " + task, nlohmann::json());
    return count.is_number_unsigned()
               ? static_cast<int>(std::min(count.get<uint64_t>(), uint64_t{99}))
               : 0;
  }

 protected:
  nlohmann::json json_;
};

nlohmann::json read_json(const std::string& path) {
  return fs::is_regular_file(path)
             ? nlohmann::json::parse(read_text(path), nullptr, /*allow_exceptions=*/false)
             : nlohmann::json();
}

std::string state_beside(const std::string& file) {
  return fs::path(file).parent_path() / ".state.json";
}

// The same, to be changed; nobody else touches it meanwhile.
class OwnState : private FileLock, public State {
 public:
  explicit OwnState(const Exercise& exercise)
      : FileLock(lock_of(exercise)),
        State(read_json(state_beside(exercise.work_copy()))),
        path_(state_beside(exercise.work_copy())) {}
  void set(const std::string& key, const nlohmann::json& value) {
    json_[key] = value;
    write_text(path_, json_text(json_));
  }

 private:
  static std::string lock_of(const Exercise& exercise) {
    const fs::path folder = fs::path(exercise.work_copy()).parent_path();
    fs::create_directories(folder);
    return folder / ".lock";
  }
  std::string path_;
};

// The student's file: copied from the starter the first time, and again as long as it was not touched.
std::string student_file(const Exercise& exercise, const CheckOptions& options) {
  if (!options.file.empty()) {
    if (!fs::is_regular_file(options.file))
      throw std::runtime_error("there is no file " + options.file);
    return fs::absolute(options.file);
  }
  OwnState state(exercise);
  const std::string file = exercise.work_copy(), starter = read_text(exercise.starter());
  const bool exists = fs::exists(file);
  const bool untouched = exists && read_text(file) == state.text("starter");
  if (!exists || untouched || options.afresh) {
    if (exists && !untouched) fmt::print("Your file was kept as {}.\n", relative(keep_copy(file)));
    write_text(file, starter);
    state.set("starter", starter);
    if (!exists)
      fmt::print("Your file is {}; it was copied from {}.\n", relative(file),
                 relative(exercise.starter()));
  } else if (!state.text("starter").empty() && state.text("starter") != starter) {
    fmt::print("The starter {} has changed since you began; your file is as you left it.\n",
               relative(exercise.starter()));
  }
  return file;
}

// Why a student's file gave no program. The library's own gave one just before.
std::string compile_errors(const Exercise& exercise, const std::string& file,
                           const std::string& log) {
  const std::string errors = readable_errors(log, file);
  if (!errors.empty()) return errors;
  const std::string misfit = readable_errors(log, exercise.folder + "/adapter.cpp", 1);
  if (!misfit.empty())
    return "A function that the tests call has another name or other parameters than before:\n" +
           misfit;
  const std::vector<std::string> empty = without_body(log);
  if (!empty.empty())
    return fmt::format("Declared, and without a body:\n{}\n", fmt::join(empty, "\n"));
  return "The compiler stopped outside your file:\n" + log.substr(0, 64 * 1024);
}

std::string indented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
  return out;
}

// Where --json goes. If that is standard output, it gets nothing else: what is meant for people goes to standard error.
class JsonOutput {
 public:
  explicit JsonOutput(const std::string& path) : path_(path) {
    if (path != "/dev/stdout" && path != "-") return;
    std::fflush(stdout);
    output_ = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~JsonOutput() { give_back(); }
  JsonOutput(const JsonOutput&) = delete;
  JsonOutput& operator=(const JsonOutput&) = delete;

  // Last of all.
  void write(const nlohmann::json& json) {
    const bool to_standard_output = output_ >= 0;
    give_back();
    if (to_standard_output)
      fmt::print("{}", json_text(json));
    else if (!path_.empty())
      write_text(path_, json_text(json));
  }

 private:
  void give_back() {
    if (output_ < 0) return;
    std::fflush(stdout);
    dup2(output_, STDOUT_FILENO);
    close(output_);
    output_ = -1;
  }

  std::string path_;
  int output_ = -1;
};

int list_exercises() {
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    fmt::print("  {:<20} {:>3} minutes, {:<7} {}\n", id, exercise.minutes, exercise.difficulty,
               exercise.title);
  }
  return 0;
}

Exercise choose_exercise(const std::string& name) {
  std::vector<Topic> topics;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR))
    topics.push_back({id, id.substr(0, 2), id.substr(3), ""});
  return read_exercise(YOTTA_SOURCE_DIR, choose(topics, name, "exercise").id);
}

int show_hint(const Exercise& exercise) {
  OwnState state(exercise);
  std::string task = state.text("open task");
  if (task == no_open_task) {
    fmt::print("Every task is solved.\n");
    return 0;
  }
  const bool known = std::any_of(exercise.tasks.begin(), exercise.tasks.end(),
                                 [&](const Task& one) { return one.id == task; });
  if (!known && !exercise.tasks.empty()) task = exercise.tasks.front().id;
  const std::vector<std::string> hints = read_hints(exercise, task);
  const auto shown = static_cast<size_t>(state.hints(task));
  for (size_t i = 0; i < std::min(shown + 1, hints.size()); ++i)
    fmt::print("{}\n{}\n",
               paint(Color::bold, fmt::format("{}, hint {} of {}", task, i + 1, hints.size())),
               indented(hints[i]));
  if (shown < hints.size()) state.set("hints " + task, shown + 1);
  if (exercise.points_per_hint > 0)
    fmt::print("Each hint takes {} of the task's points.\n", exercise.points_per_hint);
  if (shown + 1 < hints.size()) fmt::print("Once more for the next one.\n");
  return 0;
}

// Authors, after they have changed the library's header.
int cut_again(const Exercise& exercise) {
  write_text(exercise.starter(), fresh_starter(exercise));
  fmt::print("{} is cut from {}\n", relative(exercise.starter()),
             fmt::join(exercise.headers, " and "));
  return 0;
}

bool is_own(const Exercise& exercise, const std::string& file) {
  std::error_code ignored;
  return fs::equivalent(file, exercise.work_copy(), ignored);
}

// Of the student's own file, or of a folder work/NN_topic that was handed in: there .state.json lies beside the file.
std::optional<std::vector<HintsRead>> hints_read(const Exercise& exercise,
                                                 const std::string& file) {
  if (!fs::is_regular_file(state_beside(file))) return {};
  const State state(read_json(state_beside(file)));
  std::vector<HintsRead> all;
  for (const Task& task : exercise.tasks) {
    const int of = static_cast<int>(read_hints(exercise, task.id).size());
    all.push_back({task.id, std::min(state.hints(task.id), of), of});
  }
  return all;
}

void add_hints(const Exercise& exercise, Verdict& verdict) {
  verdict.hints = hints_read(exercise, verdict.file);
  if (!verdict.hints) return;
  std::map<std::string, int> read;
  for (const HintsRead& one : *verdict.hints) read[one.task] = one.read;
  take_hint_points(exercise, read, verdict.grade);
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", std::localtime(&time));
  return text;
}

// Only the student's own file has a past: another one that is graded may be anybody's.
void keep_grade(const Exercise& exercise, const Verdict& verdict) {
  if (!is_own(exercise, verdict.file)) return;
  OwnState(exercise).set("last compiled", {{"when", now()}, {"tasks", kept_tasks(verdict.grade)}});
}

void take_kept_grade(const Exercise& exercise, Verdict& verdict) {
  if (!is_own(exercise, verdict.file)) return;
  const nlohmann::json kept = OwnState(exercise).value("last compiled");
  if (!kept.is_object() || !kept.contains("tasks") || !kept.contains("when")) return;
  const std::optional<Grade> grade = grade_of_kept(exercise, kept["tasks"]);
  if (!grade || !kept["when"].is_string()) return;
  verdict.grade = *grade;
  verdict.kept_from = printable(kept["when"]);
}

// Empty: the file has the marks of every task, in pairs.
std::string wrong_marks(const Exercise& exercise, const std::string& text) {
  std::string why;
  try {
    const std::vector<std::string> parts = marked_parts(text);
    for (const Task& task : exercise.tasks)
      if (why.empty() && std::count(parts.begin(), parts.end(), task.id) != 1)
        why = fmt::format("exercise {} must be marked once", task.id);
  } catch (const std::runtime_error& error) {
    why = error.what();
  }
  if (why.empty()) return "";
  return fmt::format(
      "The tasks may be others than named here. The marks of your file are not the starter's: "
      "{}.\n",
      why);
}

void explain(const Exercise& exercise, const std::string& log, Verdict& verdict) {
  const std::string text = read_text(verdict.file);
  verdict.compile_errors = compile_errors(exercise, verdict.file, log);
  verdict.part_errors = errors_by_part(log, verdict.file, text);
  if (!verdict.part_errors.empty()) verdict.marks = wrong_marks(exercise, text);
}

// The hints that --hint shows are those of the first task that is not solved.
void note_open_task(const Exercise& exercise, const Grade& grade) {
  std::string open = no_open_task;
  for (const TaskResult& result : grade.tasks)
    if (!result.solved && open == no_open_task) open = result.task.id;
  OwnState(exercise).set("open task", open);
}

Verdict grade_file(const Exercise& exercise, const std::string& file) {
  const auto start = std::chrono::steady_clock::now();
  fmt::print("{} {}: {}\n\n", exercise.number(), exercise.title, relative(file));
  std::fflush(stdout);
  const Grader grader = build_grader(exercise);
  const RunFolder folder(fmt::format("{}/exercises/{}", YOTTA_BUILD_DIR, exercise.id));
  const Built built = build_solution(exercise, file, folder);
  Verdict verdict{file, no_points(exercise), "", {}, "", "", "", {}};
  verdict.refused = built.refused;
  if (!built.program.empty()) {
    verdict.grade = fair_grade(exercise, built.program, grader.library, grader.by_nothing);
    keep_grade(exercise, verdict);
    note_open_task(exercise, verdict.grade);
  } else if (verdict.refused.empty()) {
    explain(exercise, built.log, verdict);
    take_kept_grade(exercise, verdict);
  }
  add_hints(exercise, verdict);
  fmt::print("{}", verdict_text(exercise, verdict));
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return verdict;
}

int refuse(const CheckOptions& options, const std::string& why, JsonOutput& output) {
  fmt::print(stderr, "yotta: could not grade: {}\n", why);
  try {
    output.write({{"exercise", options.name}, {"graded", false}, {"error", why}});
  } catch (const std::exception& error) {
    if (error.what() != why) fmt::print(stderr, "yotta: {}\n", error.what());
  }
  return could_not_grade;
}

}  // namespace

int check(const CheckOptions& options) {
  if (options.name.empty()) return list_exercises();
  if (options.hint) return show_hint(choose_exercise(options.name));
  if (options.cut) return cut_again(choose_exercise(options.name));
  JsonOutput output(options.json);
  try {
    const Exercise exercise = choose_exercise(options.name);
    const Verdict verdict = grade_file(exercise, student_file(exercise, options));
    output.write(verdict_json(exercise, verdict));
    return verdict.complete() ? 0 : 1;
  } catch (const std::exception& error) {
    return refuse(options, error.what(), output);
  }
}

}  // namespace runner
