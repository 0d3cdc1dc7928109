#include "runner/verdict.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "course/shared/console.hpp"

using yotta::console::Color;
using yotta::console::paint;

namespace runner {
namespace {

constexpr size_t width = 120;  // of the screen
constexpr int most_parts = 5;  // with compile errors

// At most so many bytes, and no half letter.
std::string cut_short(const std::string& line, size_t letters) {
  if (line.size() <= letters) return line;
  size_t end = letters;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  return line.substr(0, end) + " ...";
}

// A text's first lines, indented, that take at most `most` lines of the screen; at least one of them.
std::string first_lines(const std::string& text, int most) {
  const size_t letters = most == 1 ? 70 : most <= 3 ? width - 8 : 2 * width;
  std::string out;
  const Lines lines = lines_of(text);
  size_t shown = 0;
  for (; shown < lines.size(); ++shown) {
    const std::string line = "  " + cut_short(lines[shown], letters);
    const int others = shown + 1 < lines.size() ? 1 : 0;  // a line says how many are left out
    most -= 1 + static_cast<int>(line.size() / width);
    if (shown > 0 && most < others) break;
    out += (shown > 0 ? "\n" : "") + line;
  }
  if (shown == lines.size()) return out + "\n";
  return fmt::format("{}{}... {} more lines: --json has them\n", out, letters < 80 ? "  " : "\n  ",
                     lines.size() - shown);
}

std::string task_table(const Grade& grade) {
  std::string text;
  for (const TaskResult& result : grade.tasks)
    text += fmt::format("  {}  {:<5} {:<52} {:>2} of {:>2} points  {}/{} cases\n",
                        paint(result.solved ? Color::green : Color::red, result.solved ? "✓" : "✗"),
                        result.task.id, result.task.title, result.points, result.task.points,
                        result.passed, result.cases);
  return text;
}

bool not_begun(const CaseResult& one) {
  return one.message.find("is not done yet") != std::string::npos &&
         lines_of(one.message).size() == 1;
}

// The first failed case of each task, and before them what befell the whole program.
std::vector<const CaseResult*> first_messages(const Grade& grade) {
  std::vector<const CaseResult*> all;
  if (const CaseResult* program = grade.first_failed(whole_program)) all.push_back(program);
  const bool program_ended = !all.empty();
  for (const TaskResult& result : grade.tasks) {
    const CaseResult* failed = grade.first_failed(result.task.id);
    if (failed != nullptr && !(program_ended && failed->message == did_not_run))
      all.push_back(failed);
  }
  return all;
}

std::string one_message(const CaseResult& one, int most) {
  if (not_begun(one)) return fmt::format("{}: {}\n", paint(Color::bold, one.task()), one.message);
  const std::string remark = one.weight == 0 ? " (a remark, which takes no points)" : "";
  return paint(Color::bold, cut_short(one.name, width - 40)) + remark + "\n" +
         first_lines(one.message, most);
}

// The first gets most of the screen: who solves the tasks in their order reads it first.
std::string messages(const Grade& grade) {
  const std::vector<const CaseResult*> all = first_messages(grade);
  const auto begun =
      std::count_if(all.begin(), all.end(), [](const CaseResult* one) { return !not_begun(*one); });
  const int room = verdict_lines - 10 - static_cast<int>(grade.tasks.size() + all.size());
  const int share = std::clamp(begun > 0 ? (room - 8) / static_cast<int>(begun) : 1, 1, 8);
  const int first = std::max(1, room - share * (static_cast<int>(begun) - 1));
  std::string text;
  for (const CaseResult* one : all) text += one_message(*one, one == all.front() ? first : share);
  return text.empty() ? "" : "\n" + text;
}

std::string hints_line(const Verdict& verdict) {
  std::string text;
  for (const HintsRead& one : verdict.hints.value_or(std::vector<HintsRead>{}))
    if (one.read > 0)
      text += fmt::format("{}{}: {} of {}", text.empty() ? "" : ", ", one.task, one.read, one.of);
  if (text.empty()) return "";
  int points = 0;
  for (const TaskResult& result : verdict.grade.tasks) points += result.hint_points;
  return fmt::format("Hints read: {}{}\n", text,
                     points > 0 ? fmt::format(" (they took {} points)", points) : "");
}

std::string title_of(const Exercise& exercise, const std::string& part) {
  for (const Task& task : exercise.tasks)
    if (task.id == part) return fmt::format("{}, {}", part, task.title);
  return part;
}

std::string where(const Exercise& exercise, const PartErrors& errors) {
  if (!errors.part.empty()) return "In " + title_of(exercise, errors.part);
  if (errors.after.empty()) return "Outside of the parts, before the first";
  return fmt::format("Outside of the parts (a bracket too few or too many in {} shows here too)",
                     errors.after);
}

std::string errors_text(const Exercise& exercise, const Verdict& verdict) {
  if (verdict.part_errors.empty())
    return first_lines(printable(verdict.compile_errors), verdict_lines - 10);
  std::string text;
  int shown = 0;
  for (const PartErrors& errors : verdict.part_errors) {
    if (++shown > most_parts) break;
    text += paint(Color::bold, where(exercise, errors) + ":") + "\n" + first_lines(errors.text, 6);
    if (errors.elsewhere) text += fmt::format("  because of line {} of your file\n", errors.line);
    if (errors.more > 0)
      text += fmt::format("  ... and {} more {} there\n", errors.more,
                          errors.more == 1 ? "error" : "errors");
  }
  if (shown > most_parts)
    text += fmt::format("... and errors in {} more parts\n",
                        static_cast<int>(verdict.part_errors.size()) - most_parts);
  return text + verdict.marks;
}

// Why a task has fewer points than its cases look like.
std::string needs_others_line(const Grade& grade) {
  for (const TaskResult& task : grade.tasks)
    for (const CaseResult& one : grade.cases)
      if (!task.solved && one.task() == task.task.id && one.passed && one.needs_others)
        return "Cases that an empty part passes too count when the others of their task pass.\n";
  return "";
}

std::string points_text(const Verdict& verdict) {
  const Grade& grade = verdict.grade;
  const std::string points = fmt::format("{} of {} points", grade.points, grade.of);
  if (!verdict.kept_from.empty())
    return fmt::format("{}: those of your last version that compiled, of {}\n",
                       paint(Color::bold, points), verdict.kept_from);
  return paint(verdict.complete() ? Color::green : Color::bold, points) + "\n";
}

nlohmann::json task_json(const Grade& grade, const TaskResult& result) {
  const CaseResult* failed = grade.first_failed(result.task.id);
  return {{"id", result.task.id},
          {"title", result.task.title},
          {"points", result.points},
          {"of", result.task.points},
          {"cases", result.cases},
          {"passed", result.passed},
          {"solved", result.solved},
          {"hint_points", result.hint_points},
          {"message", failed == nullptr ? "" : failed->message}};
}

nlohmann::json part_json(const PartErrors& errors) {
  nlohmann::json json = {{"line", errors.line}, {"message", errors.text}, {"more", errors.more}};
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

}  // namespace

std::string verdict_text(const Exercise& exercise, const Verdict& verdict) {
  std::string text;
  if (!verdict.refused.empty())
    text = "It is refused, and has no points.\n\n" +
           first_lines(printable(verdict.refused), verdict_lines - 10);
  else if (!verdict.compiled())
    text = "It does not compile.\n\n" + errors_text(exercise, verdict);
  else
    text = task_table(verdict.grade) + messages(verdict.grade);
  if (verdict.compiled() && verdict.refused.empty() && !verdict.complete() &&
      !exercise.tasks.empty())
    text += fmt::format("\nFor a hint: ./yotta check {} --hint\n", exercise.number());
  return text + "\n" + needs_others_line(verdict.grade) + hints_line(verdict) +
         points_text(verdict);
}

nlohmann::json verdict_json(const Exercise& exercise, const Verdict& verdict) {
  const Grade& grade = verdict.grade;
  nlohmann::json json = {{"exercise", exercise.id},
                         {"file", relative(verdict.file)},
                         {"graded", true},
                         {"compiled", verdict.compiled()},
                         {"compile_errors", verdict.compile_errors},
                         {"errors_by_task", nlohmann::json::array()},
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
    task["points"] = result.points + result.hint_points;  // hints are counted anew
    list.push_back(task);
  }
  return list;
}

std::optional<Grade> grade_of_kept(const Exercise& exercise, const nlohmann::json& kept) {
  if (!kept.is_array() || kept.size() != exercise.tasks.size()) return {};
  Grade grade = no_points(exercise);
  try {
    for (size_t i = 0; i < kept.size(); ++i) {
      TaskResult& result = grade.tasks[i];
      const nlohmann::json& task = kept[i];
      if (task.at("id") != result.task.id || task.at("of") != result.task.points) return {};
      result.points = std::clamp(task.at("points").get<int>(), 0, result.task.points);
      result.cases = task.at("cases"), result.passed = task.at("passed");
      result.solved = task.at("solved");
      grade.points += result.points;
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return grade;
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
