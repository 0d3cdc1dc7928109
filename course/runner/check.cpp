#include "runner/check.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "course/shared/console.hpp"
#include "runner/grade.hpp"
#include "runner/places.hpp"
#include "runner/solution.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;
using yotta::console::Color;
using yotta::console::paint;

namespace runner {
namespace {

constexpr int could_not_grade = 3;  // exit status

// What a student's program says may be no text.
std::string json_text(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string relative(const std::string& path) {
  const std::string root = std::string(YOTTA_SOURCE_DIR) + "/";
  return path.starts_with(root) ? path.substr(root.size()) : path;
}

// What is remembered between two checks, in work/NN_topic/.state.json: the starter that the student's
// file was copied from, the task that is open, the hints that were shown. Nobody else touches it meanwhile.
class State {
 public:
  explicit State(const Exercise& exercise)
      : folder_(fs::path(exercise.work_copy()).parent_path()), lock_(made(folder_) / ".lock") {
    if (!fs::exists(path())) return;
    json_ = nlohmann::json::parse(read_text(path()), nullptr, /*allow_exceptions=*/false);
    if (!json_.is_object()) json_ = nlohmann::json::object();
  }
  std::string text(const char* key) const { return json_.value(key, ""); }
  int hints(const std::string& task) const { return json_.value("hints " + task, 0); }
  void set(const std::string& key, const nlohmann::json& value) {
    json_[key] = value;
    write_text(path(), json_text(json_));
  }

 private:
  static fs::path made(const fs::path& folder) {
    fs::create_directories(folder);
    return folder;
  }
  std::string path() const { return folder_ / ".state.json"; }

  fs::path folder_;
  FileLock lock_;
  nlohmann::json json_ = nlohmann::json::object();
};

// The student's file: copied from the starter the first time, and again as long as it was not touched.
std::string student_file(const Exercise& exercise, const CheckOptions& options) {
  if (!options.file.empty()) {
    if (!fs::is_regular_file(options.file))
      throw std::runtime_error("there is no file " + options.file);
    return fs::absolute(options.file);
  }
  State state(exercise);
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
  } else if (state.text("starter") != starter) {
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
  if (misfit.empty()) return "The compiler stopped outside your file:\n" + log;
  return "A function that the tests call has another name or other parameters than before:\n" +
         misfit;
}

void print_tasks(const Grade& grade) {
  for (const TaskResult& result : grade.tasks) {
    const bool done = result.points == result.task.points;
    fmt::print("  {}  {:<5} {:<52} {:>2} of {:>2} points  {}/{} cases\n",
               paint(done ? Color::green : Color::red, done ? "✓" : "✗"), result.task.id,
               result.task.title, result.points, result.task.points, result.passed, result.cases);
  }
}

std::string indented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
  return out;
}

void print_verdict(const Exercise& exercise, const Grade& grade) {
  print_tasks(grade);
  if (const CaseResult* failed = grade.first_failed()) {
    fmt::print("\n{}\n{}", paint(Color::bold, failed->name), indented(failed->message));
    if (!exercise.tasks.empty())
      fmt::print("\nFor a hint: ./yotta check {} --hint\n", exercise.number());
  }
  fmt::print("\n{}\n", paint(grade.complete() ? Color::green : Color::bold,
                             fmt::format("{} of {} points", grade.points, grade.of)));
}

// One check, and what came of it.
struct Verdict {
  std::string file, compile_errors;
  Grade grade;
  double seconds = 0;
};

nlohmann::json as_json(const Exercise& exercise, const Verdict& verdict) {
  const Grade& grade = verdict.grade;
  nlohmann::json json = {{"exercise", exercise.id},
                         {"file", relative(verdict.file)},
                         {"graded", true},
                         {"compiled", verdict.compile_errors.empty()},
                         {"compile_errors", verdict.compile_errors},
                         {"points", grade.points},
                         {"of", grade.of},
                         {"complete", grade.complete()},
                         {"seconds", verdict.seconds},
                         {"tasks", nlohmann::json::array()},
                         {"cases", nlohmann::json::array()}};
  for (const TaskResult& result : grade.tasks)
    json["tasks"].push_back({{"id", result.task.id},
                             {"title", result.task.title},
                             {"points", result.points},
                             {"of", result.task.points},
                             {"cases", result.cases},
                             {"passed", result.passed}});
  for (const CaseResult& one : grade.cases)
    json["cases"].push_back({{"name", one.name}, {"passed", one.passed}, {"message", one.message}});
  return json;
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
  State state(exercise);
  std::string task = state.text("open task");
  if (task.empty() && !exercise.tasks.empty()) task = exercise.tasks.front().id;
  const std::vector<std::string> hints = read_hints(exercise, task);
  const auto shown = static_cast<size_t>(state.hints(task));
  for (size_t i = 0; i < std::min(shown + 1, hints.size()); ++i)
    fmt::print("{}\n{}\n",
               paint(Color::bold, fmt::format("{}, hint {} of {}", task, i + 1, hints.size())),
               indented(hints[i]));
  if (shown < hints.size()) state.set("hints " + task, shown + 1);
  if (shown + 1 < hints.size()) fmt::print("Once more for the next one.\n");
  return 0;
}

// Authors, after they have changed the library's header.
int cut_again(const Exercise& exercise) {
  write_text(exercise.starter(), fresh_starter(exercise));
  fmt::print("{} is cut from {}\n", relative(exercise.starter()),
             relative(exercise.library_header()));
  return 0;
}

// Nothing of a task was run.
Grade no_points(const Exercise& exercise) {
  Grade grade;
  for (const Task& task : exercise.tasks) {
    grade.tasks.push_back({task});
    grade.of += task.points;
  }
  return grade;
}

Verdict grade_file(const Exercise& exercise, const std::string& file) {
  const auto start = std::chrono::steady_clock::now();
  fmt::print("{} {}: {}\n\n", exercise.number(), exercise.title, relative(file));
  std::fflush(stdout);
  const std::string library = build_grader(exercise);
  const RunFolder folder(fmt::format("{}/exercises/{}", YOTTA_BUILD_DIR, exercise.id));
  const Built built = build_solution(exercise, file, folder);
  Verdict verdict{file, "", no_points(exercise)};
  if (!built.program.empty()) {
    verdict.grade = fair_grade(exercise, built.program, library);
    print_verdict(exercise, verdict.grade);
  } else {
    verdict.compile_errors = compile_errors(exercise, file, built.log);
    fmt::print("It does not compile:\n\n{}\n0 of {} points\n", verdict.compile_errors,
               verdict.grade.of);
  }
  if (const CaseResult* failed = verdict.grade.first_failed())
    State(exercise).set("open task", failed->task());
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

std::string readable_errors(const std::string& log, const std::string& file, int most) {
  std::string text;
  int errors = 0;
  bool inside = false;  // in the source lines under a message about the file
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const bool ours = line.starts_with(file + ":");
    const bool source = line.starts_with(" ") && line.find('|') != std::string::npos;
    const bool about_a_name = ours && line.find(": In ") != std::string::npos;  // "In function ..."
    if (ours && line.find(" error: ") != std::string::npos) ++errors;
    inside = (ours && !about_a_name) || (inside && source);
    if (inside && errors > 0 && errors <= most) text += relative(line) + "\n";
  }
  if (errors > most)
    text +=
        fmt::format("... and {} more {}\n", errors - most, errors - most == 1 ? "error" : "errors");
  return text;
}

int check(const CheckOptions& options) {
  if (options.name.empty()) return list_exercises();
  if (options.hint) return show_hint(choose_exercise(options.name));
  if (options.cut) return cut_again(choose_exercise(options.name));
  JsonOutput output(options.json);
  try {
    const Exercise exercise = choose_exercise(options.name);
    const Verdict verdict = grade_file(exercise, student_file(exercise, options));
    output.write(as_json(exercise, verdict));
    return verdict.grade.complete() ? 0 : 1;
  } catch (const std::exception& error) {
    return refuse(options, error.what(), output);
  }
}

}  // namespace runner
