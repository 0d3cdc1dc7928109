// A verdict as JSON, and what progress.json keeps of it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runner/verdict.hpp"

namespace runner {
namespace {

constexpr size_t most_log = 64 * 1024;  // bytes of what the compiler said

nlohmann::json task_json(const Grade& grade, const TaskResult& result) {
  const CaseResult* failed = grade.first_failed(result.task.id);
  nlohmann::json json = {{"id", result.task.id},
                         {"title", result.task.title},
                         {"points", result.points},
                         {"of", result.task.points},
                         {"cases", result.cases},
                         {"passed", result.passed},
                         {"solved", result.solved},
                         {"hint_points", result.hint_points},
                         {"message", failed == nullptr ? "" : failed->message}};
  json["judged_with"] = result.judged_with;
  json["not_apart"] = result.not_apart;
  json["mend_first"] =
      result.mend_first.empty() ? nlohmann::json() : nlohmann::json(result.mend_first);
  return json;
}

nlohmann::json part_json(const PartErrors& errors) {
  nlohmann::json json = {{"line", errors.line},
                         {"message", errors.text},
                         {"meaning", errors.meaning},
                         {"more", errors.more}};
  json["task"] = errors.part.empty() ? nlohmann::json() : nlohmann::json(errors.part);
  json["after"] = errors.after.empty() ? nlohmann::json() : nlohmann::json(errors.after);
  return json;
}

nlohmann::json hints_json(const Exercise& exercise, const Verdict& verdict) {
  if (!verdict.hints) return nullptr;
  nlohmann::json list = nlohmann::json::array();
  for (const HintsRead& one : *verdict.hints) {
    if (one.read == 0) continue;
    nlohmann::json read = nlohmann::json::array();
    const std::vector<std::string> hints = read_hints(exercise, one.task);
    for (int i = 0; i < one.read; ++i) read.push_back(hints.at(static_cast<size_t>(i)));
    list.push_back({{"task", one.task}, {"read", one.read}, {"of", one.of}, {"hints", read}});
  }
  return list;
}

std::string verdict_word(const Verdict& verdict) {
  if (!verdict.refused.empty()) return "refused";
  if (!verdict.compiled()) return "not compiling";
  return verdict.complete() ? "complete" : "partial";
}

// A task as it was kept. Where it has other points today, it has its share of them. False: it is
// not as it should be.
bool take_kept(const nlohmann::json& task, TaskResult& result) {
  TaskResult kept = result;
  try {
    const int of = task.at("of"),
              points = std::clamp(task.at("points").get<int>(), 0, std::max(of, 0));
    kept.cases = task.at("cases"), kept.passed = task.at("passed"), kept.solved = task.at("solved");
    kept.points = of > 0 ? result.task.points * points / of : 0;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  result = kept;
  return true;
}

}  // namespace

nlohmann::json verdict_json(const Exercise& exercise, const Verdict& verdict) {
  const Grade& grade = verdict.grade;
  nlohmann::json json = {{"exercise", exercise.id},
                         {"file", relative(verdict.file)},
                         {"graded", true},
                         {"compiled", verdict.compiled()},
                         {"compile_errors", verdict.compile_errors},
                         {"errors_by_task", nlohmann::json::array()},
                         {"log", printable(verdict.log.substr(0, most_log))},
                         {"left_out", verdict.left_out},
                         {"output", grade.output},
                         {"points", grade.points},
                         {"of", grade.of},
                         {"complete", verdict.complete()},
                         {"verdict", verdict_word(verdict)},
                         {"refused", verdict.refused},
                         {"sandbox", grade.sandbox},
                         {"hints", hints_json(exercise, verdict)},
                         {"seconds", verdict.seconds},
                         {"tasks", nlohmann::json::array()},
                         {"cases", nlohmann::json::array()}};
  json["kept_from"] =
      verdict.kept_from.empty() ? nlohmann::json() : nlohmann::json(verdict.kept_from);
  for (const PartErrors& errors : verdict.part_errors)
    json["errors_by_task"].push_back(part_json(errors));
  for (const TaskResult& result : grade.tasks) json["tasks"].push_back(task_json(grade, result));
  for (const CaseResult& one : grade.cases)
    json["cases"].push_back({{"name", one.name},
                             {"passed", one.passed},
                             {"weight", one.weight},
                             {"needs_others", one.needs_others},
                             {"message", one.message}});
  return json;
}

nlohmann::json kept_tasks(const Grade& grade) {
  nlohmann::json list = nlohmann::json::array();
  for (const TaskResult& result : grade.tasks) {
    nlohmann::json task = task_json(grade, result);
    task.erase("message");
    task.erase("mend_first");
    task.erase("judged_with");
    task.erase("not_apart");
    task["points"] = result.points + result.hint_points;  // hints are counted anew
    list.push_back(task);
  }
  return list;
}

std::optional<Grade> grade_of_kept(const Exercise& exercise, const nlohmann::json& kept) {
  if (!kept.is_array()) return {};
  Grade grade = no_points(exercise);
  bool known = false;
  for (TaskResult& result : grade.tasks) {
    for (const nlohmann::json& task : kept)
      if (task.is_object() && task.value("id", nlohmann::json()) == result.task.id)
        known = take_kept(task, result) || known;
    grade.points += result.points;
  }
  return known ? std::optional(grade) : std::nullopt;
}

Grade no_points(const Exercise& exercise) {
  Grade grade;
  for (const Task& task : exercise.tasks) {
    grade.tasks.push_back({task});
    grade.of += task.points;
  }
  return grade;
}

}  // namespace runner
