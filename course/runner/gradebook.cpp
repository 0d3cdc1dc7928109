#include "runner/gradebook.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "course/options/console.hpp"
#include "runner/grade.hpp"

using yotta::console::Table;

namespace runner {
namespace {

constexpr Outcome outcomes[] = {
    Outcome::complete, Outcome::partial,         Outcome::empty,          Outcome::not_compiling,
    Outcome::refused,  Outcome::could_not_grade, Outcome::not_recognised, Outcome::not_handed_in};

// Names of folders and words of programs may be no text.
std::string valid_text(const std::string& text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return printable(nlohmann::json::parse(quoted).get<std::string>());
}

std::string points_text(const Mark& mark) {
  return mark.points ? fmt::format("{}", *mark.points) : "";
}

template <class Of>
std::vector<std::string> names(const Marks& marks, Of of) {
  std::vector<std::string> all;
  for (const Mark& mark : marks) all.push_back(of(mark));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}
std::vector<std::string> students(const Marks& marks) {
  return names(marks, [](const Mark& mark) { return mark.student; });
}
std::vector<std::string> exercises_of(const Marks& marks) {
  return names(marks, [](const Mark& mark) { return mark.exercise; });
}

const Mark* find(const Marks& marks, const std::string& student, const std::string& exercise) {
  for (const Mark& mark : marks)
    if (mark.student == student && mark.exercise == exercise) return &mark;
  return nullptr;
}

int points_possible(const Marks& marks, const std::string& exercise) {
  int most = 0;
  for (const Mark& mark : marks)
    if (mark.exercise == exercise) most = std::max(most, mark.of);
  return most;
}

std::string csv_row(const std::vector<std::string>& cells) {
  std::string row;
  for (const std::string& cell : cells) row += (row.empty() ? "" : ",") + csv_cell(cell);
  return row + "\r\n";
}

// "Exercise 10_collectives" for each exercise, behind the columns that name the student.
std::vector<std::string> header(const Marks& marks, std::vector<std::string> first) {
  for (const std::string& exercise : exercises_of(marks)) first.push_back("Exercise " + exercise);
  return first;
}

std::vector<std::string> row_of(const Marks& marks, const std::string& student,
                                std::vector<std::string> first) {
  for (const std::string& exercise : exercises_of(marks)) {
    const Mark* mark = find(marks, student, exercise);
    first.push_back(mark == nullptr ? "" : points_text(*mark));
  }
  return first;
}

std::string xml(const std::string& text) {
  std::string escaped;
  for (const char c : valid_text(text)) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += c;
  }
  return escaped;
}

std::string junit_case(const Mark& mark, const std::string& case_name, const std::string& inside) {
  return fmt::format("    <testcase classname=\"{}.{}\" name=\"{}\">{}</testcase>\n",
                     xml(mark.exercise), xml(mark.student), xml(case_name), inside);
}

struct Suite {
  std::string cases;
  int count = 0, failures = 0, errors = 0;
};

// <failure> or <error>, with the whole message inside and its first line as an attribute.
std::string junit_problem(const char* element, const std::string& message) {
  return fmt::format("<{0} message=\"{1}\">{2}</{0}>", element,
                     xml(message.substr(0, message.find('\n'))), xml(message));
}

Suite junit_cases(const Mark& mark) {
  Suite suite;
  for (const auto& one : mark.cases) {
    const bool passed = one.value("passed", false);
    suite.cases += junit_case(mark, one.value("name", ""),
                              passed ? "" : junit_problem("failure", one.value("message", "")));
    ++suite.count, suite.failures += !passed;
  }
  if (mark.outcome == Outcome::not_handed_in) return suite;
  if (!mark.message.empty() || !mark.points) {
    suite.cases += junit_case(mark, name(mark.outcome), junit_problem("error", mark.message));
    ++suite.count, ++suite.errors;
  }
  return suite;
}

// Markdown that shows a text as it is, whatever backquotes it holds.
std::string fenced(const std::string& text) {
  const std::string plain = valid_text(text);
  std::string fence = "```";
  while (plain.find(fence) != std::string::npos) fence += "`";
  return fence + "\n" + plain + (plain.ends_with("\n") ? "" : "\n") + fence + "\n";
}

std::string task_rows(const Mark& mark) {
  std::string text = "| task | | points | cases |\n|---|---|---|---|\n";
  for (const auto& task : mark.tasks)
    text += fmt::format("| {} | {} | {} of {} | {} of {} |\n", task.value("id", ""),
                        task.value("title", ""), task.value("points", 0), task.value("of", 0),
                        task.value("passed", 0), task.value("cases", 0));
  return text;
}

std::string title_of(const std::vector<Exercise>& exercises, const std::string& id) {
  for (const Exercise& exercise : exercises)
    if (exercise.id == id) return exercise.number() + " " + exercise.title;
  return id;
}

std::string feedback_on(const Mark& mark, const std::vector<Exercise>& exercises) {
  std::string text = fmt::format("## {}\n\n", title_of(exercises, mark.exercise));
  if (mark.points)
    text += fmt::format("**{} of {} points**, {}\n\n", *mark.points, mark.of, name(mark.outcome));
  else
    text += fmt::format("**No points yet**: {}\n\n", name(mark.outcome));
  if (!mark.note.empty()) text += fenced(mark.note) + "\n";
  if (!mark.message.empty()) text += fenced(mark.message) + "\n";
  if (!mark.tasks.empty()) text += task_rows(mark) + "\n";
  for (const auto& task : mark.tasks) {
    const std::string message = task.value("message", "");
    if (!task.value("solved", false) && !message.empty())
      text += fmt::format("{}, {}:\n\n{}\n", task.value("id", ""), task.value("title", ""),
                          fenced(message));
  }
  return text;
}

nlohmann::json gradescope_test(const Mark& mark, const nlohmann::json& task,
                               const std::string& visibility) {
  const bool solved = task.value("solved", false);
  return {{"number", task.value("id", "")},
          {"name", mark.exercise + ": " + task.value("title", "")},
          {"score", task.value("points", 0)},
          {"max_score", task.value("of", 0)},
          {"status", solved ? "passed" : "failed"},
          {"output", solved ? "" : task.value("message", "")},
          {"output_format", "text"},
          {"visibility", visibility}};
}

}  // namespace

const char* name(Outcome outcome) {
  constexpr const char* texts[] = {"complete",       "partial",      "empty",
                                   "not compiling",  "refused",      "could not grade",
                                   "not recognised", "not handed in"};
  return texts[static_cast<int>(outcome)];
}

nlohmann::json mark_json(const Mark& mark) {
  nlohmann::json json = {
      {"student", mark.student}, {"exercise", mark.exercise}, {"verdict", name(mark.outcome)},
      {"of", mark.of},           {"compiled", mark.compiled}, {"message", mark.message},
      {"note", mark.note},       {"tasks", mark.tasks},       {"cases", mark.cases}};
  json["points"] = mark.points ? nlohmann::json(*mark.points) : nlohmann::json();
  return json;
}

Mark mark_of(const nlohmann::json& json) {
  Mark mark{json.at("student"), json.at("exercise")};
  const std::string verdict = json.at("verdict");
  for (const Outcome each : outcomes)
    if (verdict == name(each)) mark.outcome = each;
  if (!json.at("points").is_null()) mark.points = json.at("points").get<int>();
  mark.of = json.at("of"), mark.compiled = json.at("compiled");
  mark.message = json.at("message"), mark.note = json.at("note");
  mark.tasks = json.at("tasks"), mark.cases = json.at("cases");
  return mark;
}

nlohmann::json marks_json(const Marks& marks) {
  nlohmann::json list = nlohmann::json::array();
  for (const Mark& mark : marks) list.push_back(mark_json(mark));
  return {{"submissions", list}};
}

std::string marks_table(const Marks& marks) {
  const std::vector<std::string> exercises = exercises_of(marks);
  std::vector<std::string> head = {"student"};
  head.insert(head.end(), exercises.begin(), exercises.end());
  Table table(head);
  for (const std::string& student : students(marks)) {
    std::vector<std::string> row = {valid_text(student)};
    for (const std::string& exercise : exercises) {
      const Mark* mark = find(marks, student, exercise);
      row.push_back(mark == nullptr ? ""
                    : mark->points  ? fmt::format("{} {}", name(mark->outcome), *mark->points)
                                    : name(mark->outcome));
    }
    table.row(row);
  }
  return table.text();
}

std::string csv_cell(std::string text) {
  text = valid_text(text);
  if (!text.empty() && std::string("=+-@\t\r").find(text[0]) != std::string::npos)
    text.insert(0, "'");
  if (text.find_first_of(",\"\n;") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

namespace {
std::string unquoted(const std::string& cell) {
  const std::string text = trimmed(cell);
  const bool quotes = text.size() > 1 && text.front() == '"' && text.back() == '"';
  return quotes ? text.substr(1, text.size() - 2) : text;
}
std::string login_of(const Logins& logins, const std::string& student) {
  const auto found = logins.find(student);
  return found == logins.end() ? student : found->second;
}
}  // namespace

Logins read_logins(const std::string& file) {
  Logins logins;
  int number = 0;
  for (const std::string& line : lines_of(read_text(file))) {
    ++number;
    if (trimmed(line).empty()) continue;
    const size_t comma = line.rfind(',');
    const std::string folder = unquoted(line.substr(0, comma));
    const std::string login = comma == std::string::npos ? "" : unquoted(line.substr(comma + 1));
    if (folder.empty() || login.empty())
      throw std::runtime_error(
          fmt::format("{}, line {}: expected FOLDER,LOGIN, not '{}'", file, number, line));
    if (!logins.emplace(folder, login).second)
      throw std::runtime_error(fmt::format("{}, line {}: {} has a login already, {}", file, number,
                                           folder, logins[folder]));
  }
  return logins;
}

std::string canvas_csv(const Marks& marks, const Logins& logins) {
  std::string text =
      csv_row(header(marks, {"Student", "ID", "SIS User ID", "SIS Login ID", "Section"}));
  std::vector<std::string> possible = {"Points Possible", "", "", "", ""};
  for (const std::string& exercise : exercises_of(marks))
    possible.push_back(fmt::format("{}", points_possible(marks, exercise)));
  text += csv_row(possible);
  for (const std::string& student : students(marks))
    text += csv_row(row_of(marks, student, {student, "", "", login_of(logins, student), ""}));
  return text;
}

std::string moodle_csv(const Marks& marks, const Logins& logins) {
  std::string text = csv_row(header(marks, {"Username"}));
  for (const std::string& student : students(marks))
    text += csv_row(row_of(marks, student, {login_of(logins, student)}));
  return text;
}

std::string junit_xml(const Marks& marks) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const Mark& mark : marks) {
    const Suite suite = junit_cases(mark);
    text += fmt::format(
        "  <testsuite name=\"{}: {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n{}  "
        "</testsuite>\n",
        xml(mark.student), xml(mark.exercise), suite.count, suite.failures, suite.errors,
        suite.cases);
  }
  return text + "</testsuites>\n";
}

nlohmann::json gradescope_results(const Marks& of_student, const std::string& visibility) {
  int points = 0;
  std::string output;
  nlohmann::json tests = nlohmann::json::array();
  for (const Mark& mark : of_student) {
    points += mark.points.value_or(0);
    output += fmt::format("{}: {}\n", mark.exercise, name(mark.outcome));
    for (const std::string& words : {mark.note, mark.message})
      if (!words.empty()) output += words + "\n";
    for (const auto& task : mark.tasks) tests.push_back(gradescope_test(mark, task, visibility));
  }
  return {{"score", points},
          {"output", output},
          {"output_format", "text"},
          {"visibility", "visible"},
          {"stdout_visibility", "hidden"},
          {"tests", tests}};
}

std::string feedback(const Marks& of_student, const std::vector<Exercise>& exercises) {
  if (of_student.empty()) return "";
  int points = 0, of = 0;
  std::string text;
  for (const Mark& mark : of_student) {
    if (mark.outcome == Outcome::not_handed_in) continue;
    points += mark.points.value_or(0), of += mark.of;
    text += feedback_on(mark, exercises);
  }
  return fmt::format("# {}\n\n{} of {} points in all.\n\n{}",
                     valid_text(of_student.front().student), points, of, text);
}

}  // namespace runner
