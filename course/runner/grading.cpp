#include "runner/grading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runner/apart.hpp"
#include "runner/compile_errors.hpp"
#include "runner/places.hpp"
#include "runner/progress.hpp"
#include "runner/salvage.hpp"
#include "runner/solution.hpp"
#include "runner/submission.hpp"

namespace runner {
namespace {

// Why a student's file gave no program. The library's own gave one just before.
std::string compile_errors(const Exercise& exercise, const std::string& file,
                           const std::string& log) {
  const std::string errors = readable_errors(log, file);
  if (!errors.empty()) return errors;
  const std::string misfit = readable_errors(log, exercise.folder + "/adapter.cpp", 1);
  if (!misfit.empty() && read_text(file).find("namespace yotta::student") == std::string::npos)
    return "Your file has no namespace yotta::student, in which the tests look for your functions. "
           "Was it cut off?\n";
  if (!misfit.empty())
    return "A function that the tests call has another name or other parameters than before:\n" +
           misfit;
  const std::vector<std::string> empty = without_body(log);
  if (!empty.empty())
    return fmt::format("Declared, and without a body:\n{}\n", fmt::join(empty, "\n"));
  return "The compiler stopped outside your file:\n" + log.substr(0, 64 * 1024);
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

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", std::localtime(&time));
  return text;
}

// Only the student's own file has a past: another one that is graded may be anybody's.
void keep_grade(const Exercise& exercise, const Verdict& verdict) {
  if (!is_own(exercise, verdict.file)) return;
  OwnProgress progress(exercise);
  progress.set(last_compiled(), {{"when", now()}, {"tasks", kept_tasks(verdict.grade)}});
  std::string open = no_open_task;
  for (const TaskResult& result : verdict.grade.tasks)
    if (!result.solved && open == no_open_task) open = result.task.id;
  progress.set("open task", open);
}

// Of each task the better result: what a slip has broken is not lost.
void take_kept_grade(const Exercise& exercise, Verdict& verdict) {
  if (!is_own(exercise, verdict.file)) return;
  const Progress progress = read_progress(exercise);
  const std::optional<Grade> kept = progress.grade(exercise);
  if (!kept || progress.graded_when().empty()) return;
  verdict.kept_from = progress.graded_when();
  verdict.grade.points = 0;
  for (size_t i = 0; i < kept->tasks.size(); ++i) {
    TaskResult& result = verdict.grade.tasks[i];
    if (kept->tasks[i].points > result.points || result.cases == 0) result = kept->tasks[i];
    verdict.grade.points += result.points;
  }
}

// Of the student's own file, or of one that was handed in with its progress.
std::optional<std::vector<HintsRead>> hints_read(const Exercise& exercise,
                                                 const std::string& file) {
  const std::optional<Progress> progress = is_own(exercise, file)
                                               ? std::optional(read_progress(exercise))
                                               : progress_beside(exercise, file);
  if (!progress) return {};
  std::vector<HintsRead> all;
  for (const Task& task : exercise.tasks) {
    const int of = static_cast<int>(read_hints(exercise, task.id).size());
    all.push_back({task.id, std::min(progress->hints(task.id), of), of});
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

// It does not compile: the tasks that do without the others, and the points that were earned
// before.
void grade_the_rest(const Exercise& exercise, const Grader& grader, const RunFolder& folder,
                    Verdict& verdict) {
  if (verdict.marks.empty() && !verdict.part_errors.empty()) {
    const Salvaged rest = salvage(exercise, verdict.file, verdict.part_errors, folder);
    verdict.left_out = rest.left_out;
    if (!rest.program.empty())
      verdict.grade = fair_grade(exercise, rest.program, grader.library, grader.by_nothing);
  }
  take_kept_grade(exercise, verdict);
}

}  // namespace

Verdict grade_file(const Exercise& exercise, const std::string& file) {
  const auto start = std::chrono::steady_clock::now();
  Verdict verdict = grade_file(exercise, file, build_grader(exercise));
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return verdict;
}

Verdict grade_file(const Exercise& exercise, const std::string& file, const Grader& grader) {
  const RunFolder folder(fmt::format("{}/exercises/{}", YOTTA_BUILD_DIR, exercise.id));
  const Built built = build_solution(exercise, file, folder);
  Verdict verdict;
  verdict.file = file;
  verdict.grade = no_points(exercise);
  verdict.log = built.log;
  verdict.refused = built.refused;
  if (!built.program.empty()) {
    verdict.warnings = warnings_by_part(built.log, file, read_text(file));
    verdict.grade = fair_grade(exercise, built.program, grader.library, grader.by_nothing);
    judge_apart(exercise, file, grader, folder, verdict.grade);
    keep_grade(exercise, verdict);
  } else if (verdict.refused.empty()) {
    explain(exercise, built.log, verdict);
    grade_the_rest(exercise, grader, folder, verdict);
  }
  add_hints(exercise, verdict);
  return verdict;
}

}  // namespace runner
