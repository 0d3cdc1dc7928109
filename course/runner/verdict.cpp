#include "runner/verdict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "course/options/console.hpp"

using yotta::console::Color;
using yotta::console::paint;

namespace runner {
namespace {

constexpr size_t width = 120;        // of the screen
constexpr size_t name_width = 75;    // of a case's name: one line in a window of 80
constexpr int most_printed = 12;     // lines of what the program printed, with their heading
constexpr int most_parts = 5;        // with compile errors
constexpr size_t longest_word = 30;  // that is left out whole where a line is cut

// At most so many bytes, and no half word or, where a word is longer, no half character.
std::string cut_short(const std::string& line, size_t characters) {
  if (line.size() <= characters) return line;
  size_t end = characters;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  const size_t blank = line.find_last_of(' ', end);
  if (blank != std::string::npos && blank + longest_word > end) end = blank;
  return line.substr(0, end) + " ...";
}

std::string more_lines(size_t count) {
  return fmt::format("{} more line{}", count, count == 1 ? "" : "s");
}

// A text's first lines, indented, that take at most `most` lines of the screen; at least one of
// them.
std::string first_lines(const std::string& text, int most) {
  const size_t characters = most == 1 ? 70 : most <= 3 ? width - 8 : 2 * width;
  std::string out;
  const Lines lines = lines_of(text);
  size_t shown = 0;
  for (; shown < lines.size(); ++shown) {
    const std::string line = "  " + cut_short(lines[shown], characters);
    const int others = shown + 1 < lines.size() ? 1 : 0;  // a line says how many are left out
    most -= 1 + static_cast<int>(line.size() / width);
    if (shown > 0 && most < others) break;
    out += (shown > 0 ? "\n" : "") + line;
  }
  if (shown == lines.size()) return out + "\n";
  return fmt::format("{}{}... {}: -v shows them\n", out, characters < 80 ? "  " : "\n  ",
                     more_lines(lines.size() - shown));
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

// Of a task that says only what comes before it.
bool waits_for_another(const CaseResult& one) { return is_not_begun(one) || one.needs_mending; }

std::string one_message(const CaseResult& one, int most) {
  if (waits_for_another(one))
    return fmt::format("{}: {}\n", paint(Color::bold, one.task()), lines_of(one.message).front());
  const std::string remark = one.weight == 0 ? " (a remark, which takes no points)" : "";
  return paint(Color::bold, cut_short(one.name, name_width)) + remark + "\n" +
         first_lines(one.message, most);
}

// The first that was begun gets most of the screen: who solves the tasks in their order reads it
// first.
std::string messages(const Grade& grade, int lines) {
  const std::vector<const CaseResult*> all = first_messages(grade);
  const auto is_begun = [](const CaseResult* one) { return !waits_for_another(*one); };
  const auto begun = std::count_if(all.begin(), all.end(), is_begun);
  const auto lead = std::find_if(all.begin(), all.end(), is_begun);
  const int said = std::min(most_printed, static_cast<int>(lines_of(grade.output).size()) + 2);
  const int room = lines - 14 - (grade.output.empty() ? 0 : said) -
                   static_cast<int>(grade.tasks.size() + all.size());
  const int share = std::clamp(begun > 0 ? (room - 8) / static_cast<int>(begun) : 1, 1, 8);
  const int first = std::max(1, room - share * (static_cast<int>(begun) - 1));
  std::string text;
  for (auto one = all.begin(); one != all.end(); ++one)
    text += one_message(**one, one == lead ? first : share);
  return text.empty() ? "" : "\n" + text;
}

// Of one task, with what befell the whole program; the points stay those of all.
Grade only_task(const std::string& id, Grade grade) {
  if (id.empty()) return grade;
  std::erase_if(grade.tasks, [&](const TaskResult& result) { return result.task.id != id; });
  std::erase_if(grade.cases, [&](const CaseResult& one) {
    return one.task() != id && one.name != whole_program;
  });
  return grade;
}

std::string all_messages(const Grade& grade) {
  std::string text;
  for (const CaseResult& one : grade.cases)
    if (!one.passed) text += paint(Color::bold, one.name) + "\n" + indented(one.message);
  return text.empty() ? "" : "\n" + text;
}

// What the student's program printed: of use when a case failed.
std::string printed(const Grade& grade, bool all) {
  constexpr size_t first_of_it = 10;  // lines
  const Lines lines = lines_of(grade.output);
  if (lines.empty() || (!all && grade.first_failed() == nullptr)) return "";
  std::string text = "\n" + paint(Color::bold, "Your program printed:") + "\n";
  for (size_t i = 0; i < lines.size() && (all || i < first_of_it); ++i)
    text += "  " + (all ? lines[i] : cut_short(lines[i], width - 8)) + "\n";
  if (!all && lines.size() > first_of_it)
    text += fmt::format("  ... {}: -v shows them\n", more_lines(lines.size() - first_of_it));
  return text;
}

// Which tasks do not pay for another's mistake.
std::string apart_lines(const Grade& grade) {
  std::map<std::string, std::string> tasks;  // by those that they were judged with
  for (const TaskResult& result : grade.tasks) {
    if (result.judged_with.empty()) continue;
    std::string& all = tasks[fmt::format("{}", fmt::join(result.judged_with, ", "))];
    all += (all.empty() ? "" : ", ") + result.task.id;
  }
  std::string text;
  for (const auto& [with, judged] : tasks)
    text += fmt::format("{} counted with the library's {} in place of yours\n", judged, with);
  return text;
}

// Which tasks may earn more where what is handed in is graded.
std::string not_apart_line(const Grade& grade) {
  std::vector<std::string> tasks;
  for (const TaskResult& result : grade.tasks)
    if (result.not_apart) tasks.push_back(result.task.id);
  if (tasks.empty()) return "";
  return fmt::format(
      "{} could not be judged alone: this tree has no right solution of what they use. When your "
      "work is graded, they count with the library's.\n",
      fmt::join(tasks, ", "));
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

std::string part_errors_text(const Exercise& exercise, const PartErrors& errors) {
  std::string text =
      paint(Color::bold, where(exercise, errors) + ":") + "\n" + first_lines(errors.text, 6);
  if (errors.elsewhere) text += fmt::format("  because of line {} of your file\n", errors.line);
  if (!errors.meaning.empty()) text += "  " + paint(Color::cyan, errors.meaning) + "\n";
  if (errors.more > 0)
    text += fmt::format("  ... and {} more {} there\n", errors.more,
                        errors.more == 1 ? "error" : "errors");
  return text;
}

bool names(const std::vector<PartErrors>& errors, const std::string& part) {
  return std::any_of(errors.begin(), errors.end(),
                     [&](const PartErrors& one) { return one.part == part; });
}

// Where it is known which parts are to blame, what they have caused elsewhere is noise.
std::vector<PartErrors> to_blame(const Verdict& verdict) {
  std::vector<PartErrors> kept;
  for (const PartErrors& one : verdict.part_errors)
    if (std::count(verdict.left_out.begin(), verdict.left_out.end(), one.part) > 0)
      kept.push_back(one);
  return kept.empty() ? verdict.part_errors : kept;
}

std::string errors_text(const Exercise& exercise, const Verdict& verdict, const Shown& view) {
  std::string text = "It does not compile.\n\n";
  if (view.all) return text + printable(verdict.log) + verdict.marks;
  if (verdict.part_errors.empty())
    return text + first_lines(printable(verdict.compile_errors), view.lines - 10);
  int shown = 0;
  for (const PartErrors& errors : to_blame(verdict))
    if (++shown <= most_parts) text += part_errors_text(exercise, errors);
  if (shown > most_parts)
    text += fmt::format("... and errors in {} more parts\n", shown - most_parts);
  for (const std::string& part : verdict.left_out)
    if (!names(verdict.part_errors, part))
      text += fmt::format("The brackets in {} do not match.\n", title_of(exercise, part));
  return text + verdict.marks + "All that the compiler says: -v\n";
}

// What a compiler only warns of is mostly why a case fails.
std::string warnings_text(const Verdict& verdict) {
  if (verdict.warnings.empty() || verdict.grade.complete()) return "";
  const PartErrors& first = verdict.warnings.front();
  return fmt::format("\n{}\n{}  {}\n", paint(Color::bold, "The compiler warns:"),
                     first_lines(first.text, 2), paint(Color::cyan, first.meaning));
}

// The table of tasks and what failed; before it, which tasks do not compile.
std::string cases_text(const Verdict& verdict, Grade grade, const Shown& view) {
  std::string text;
  if (!verdict.left_out.empty()) {
    text = fmt::format("\nThe rest compiles without {}, and was graded:\n\n",
                       fmt::join(verdict.left_out, ", "));
    std::erase_if(grade.cases,
                  [](const CaseResult& one) { return !one.passed && is_not_begun(one); });
  }
  text += task_table(grade) + (view.all ? all_messages(grade) : messages(grade, view.lines));
  return text + printed(grade, view.all) + warnings_text(verdict);
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
  if (!verdict.kept_from.empty() && !verdict.left_out.empty())
    return fmt::format(
        "{}: for each task the better of this version and the last one that compiled, graded {}\n",
        paint(Color::bold, points), verdict.kept_from);
  if (!verdict.kept_from.empty())
    return fmt::format("{}: those of your last version that compiled, graded {}\n",
                       paint(Color::bold, points), verdict.kept_from);
  return paint(verdict.complete() ? Color::green : Color::bold, points) + "\n";
}

}  // namespace

std::string indented(const std::string& text) {
  std::string out;
  for (const std::string& line : lines_of(text)) out += "  " + line + "\n";
  return out;
}

bool Verdict::solved(const std::string& task) const {
  if (task.empty() || !refused.empty()) return complete();
  const auto is_left_out = std::find(left_out.begin(), left_out.end(), task) != left_out.end();
  for (const TaskResult& result : grade.tasks)
    if (result.task.id == task)
      return result.solved && !is_left_out && (compiled() || !left_out.empty());
  return false;
}

std::string verdict_text(const Exercise& exercise, const Verdict& verdict, const Shown& shown) {
  const Grade grade = only_task(shown.task, verdict.grade);
  std::string text;
  if (!verdict.refused.empty())
    return "It is refused, and has no points.\n\n" +
           first_lines(printable(verdict.refused), shown.lines - 10) + "\n" + points_text(verdict);
  if (!verdict.compiled()) text = errors_text(exercise, verdict, shown);
  if (verdict.compiled() || !verdict.left_out.empty()) text += cases_text(verdict, grade, shown);
  if (verdict.compiled() && !verdict.solved(shown.task) && !exercise.tasks.empty())
    text += fmt::format("\nFor a hint: ./yotta hint {}\n",
                        shown.task.empty() ? exercise.number() : shown.task);
  return text + "\n" + needs_others_line(grade) + apart_lines(grade) + not_apart_line(grade) +
         hints_line(verdict) + points_text(verdict);
}

}  // namespace runner
