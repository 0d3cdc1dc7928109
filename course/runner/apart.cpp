#include "runner/apart.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "runner/salvage.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr int rounds_of_lending = 2;  // of compiling again

std::map<std::string, Lines> lines_by_part(const std::string& text) {
  std::map<std::string, Lines> all;
  const Lines lines = lines_of(text), ids = part_of_lines(text);
  for (size_t i = 0; i < lines.size(); ++i) all[ids[i]].push_back(trimmed(lines[i]));
  return all;
}

// Every task is marked once, as in the starter.
bool has_all_marks(const Exercise& exercise, const std::string& text) {
  try {
    const std::vector<std::string> parts = marked_parts(text);
    return std::all_of(exercise.tasks.begin(), exercise.tasks.end(), [&](const Task& task) {
      return std::count(parts.begin(), parts.end(), task.id) == 1;
    });
  } catch (const std::runtime_error&) {
    return false;
  }
}

// A task's result and messages from another run, in which the parts that were lent are right.
void take_task(const std::string& id, const Grade& other, const std::vector<std::string>& lent,
               Grade& grade) {
  for (TaskResult& result : grade.tasks) {
    const auto found = std::find_if(other.tasks.begin(), other.tasks.end(),
                                    [&](const TaskResult& each) { return each.task.id == id; });
    if (result.task.id != id || found == other.tasks.end() || found->points < result.points)
      continue;
    grade.points += found->points - result.points;
    result = *found;
    for (const std::string& needed : result.task.needs)
      if (has(lent, needed)) result.judged_with.push_back(needed);
  }
  for (CaseResult& one : grade.cases)
    for (const CaseResult& its : other.cases)
      if (one.task() == id && its.name == one.name) one = its;
}

}  // namespace

std::vector<std::string> begun_parts(const std::string& text, const std::string& starter) {
  std::vector<std::string> begun;
  const std::map<std::string, Lines> fresh = lines_by_part(starter);
  for (const auto& [id, lines] : lines_by_part(text)) {
    const auto found = fresh.find(id);
    if (!id.empty() && found != fresh.end() && found->second != lines) begun.push_back(id);
  }
  return begun;
}

std::vector<std::string> parts_to_lend(const Grade& grade, const std::vector<std::string>& begun) {
  std::vector<std::string> lent;
  bool waits = false;
  for (const TaskResult& result : grade.tasks) {
    if (result.solved) continue;
    waits = waits || (!result.mend_first.empty() && has(begun, result.task.id));
    if (result.mend_first.empty() || !has(begun, result.task.id)) lent.push_back(result.task.id);
  }
  return waits ? lent : std::vector<std::string>{};
}

void mark_not_apart(const std::vector<std::string>& begun, Grade& grade) {
  for (TaskResult& result : grade.tasks)
    result.not_apart = !result.mend_first.empty() && has(begun, result.task.id);
}

void judge_apart(const Exercise& exercise, const std::string& file, const Grader& grader,
                 const RunFolder& folder, Grade& grade) {
  const std::string text = read_text(file);
  if (!has_all_marks(exercise, text)) return;
  const std::vector<std::string> begun = begun_parts(text, starter_of(exercise));
  if (fs::exists(YOTTA_SOURCE_DIR "/handout")) return mark_not_apart(begun, grade);
  std::vector<std::string> lent = parts_to_lend(grade, begun);
  const std::string copy =
      fmt::format("{}/apart/{}", folder.path(), fs::path(file).filename().string());
  for (int round = 0; round < rounds_of_lending && !lent.empty(); ++round) {
    write_text(copy, with_starter_parts(text, variant_of(exercise, "library"), lent));
    const Built built = build_solution(exercise, copy, folder);
    if (built.program.empty()) return;  // what stands outside of the parts does not fit them
    const Grade apart = fair_grade(exercise, built.program, grader.library, grader.by_nothing);
    for (const TaskResult& result : apart.tasks)
      if (!has(lent, result.task.id) && result.mend_first.empty())
        take_task(result.task.id, apart, lent, grade);
    const std::vector<std::string> more = parts_to_lend(apart, begun);
    if (more.empty()) return;
    lent.insert(lent.end(), more.begin(), more.end());
  }
}

}  // namespace runner
