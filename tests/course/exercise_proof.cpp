// Is an exercise fair? For the exercise that YOTTA_EXERCISE names: every task has its function, the
// starter fails every case, the library passes all, and each wrong solution is rejected by the case
// and with the words that exercise.json promises. exercises/CMakeLists.txt builds the programs.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "runner/grade.hpp"
#include "runner/lesson_text.hpp"
#include "support/from_ctest.hpp"
#include "support/not_run.hpp"

using namespace runner;

namespace {

// What a variable says, else `other`. tests/course/authors.cpp has an exercise proven that lies
// elsewhere.
std::string variable(const char* name, const std::string& other) {
  const char* const value = std::getenv(name);
  return value == nullptr ? other : value;
}

const Exercise& the_exercise() {
  static const Exercise exercise = read_exercise(variable("YOTTA_EXERCISE_ROOT", YOTTA_SOURCE_DIR),
                                                 yotta_test::from_ctest("YOTTA_EXERCISE"));
  return exercise;
}

Grade grade_of(const std::string& variant) {
  const Exercise& exercise = the_exercise();
  return grade(exercise,
               fmt::format("{}/exercise_{}_{}",
                           variable("YOTTA_EXERCISE_PROGRAMS", YOTTA_BUILD_DIR "/exercises"),
                           exercise.id, variant),
               20);
}

// The solutions in a folder, sorted; none if there is no such folder.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (!std::filesystem::is_directory(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

std::set<std::string> names(const Grade& grade) {
  std::set<std::string> all;
  for (const CaseResult& one : grade.cases) all.insert(one.name);
  return all;
}

// What a case of the starter says: that its task is not done yet, or what the mistake says that is
// to be mended.
Lines words_of_starter(const std::string& task) {
  const Exercise& exercise = the_exercise();
  for (const Wrong& wrong : exercise.wrong)
    if (exercise.mend.count(task) > 0 && exercise.mend.at(task) == wrong.name) return wrong.says;
  return {"is not done yet"};
}

// Lines of code, without blanks around them, in each part of the library's headers: what a student
// is to write.
std::map<std::string, Lines> code_by_task() {
  const std::string header = the_exercise().library_text();
  const Lines lines = lines_of(header);
  const std::vector<std::string> parts = part_of_lines(header);
  std::map<std::string, Lines> code;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t begin = lines[i].find_first_not_of(' ');
    if (!parts[i].empty() && begin != std::string::npos && lines[i].compare(begin, 2, "//") != 0)
      code[parts[i]].push_back(lines[i].substr(begin));
  }
  return code;
}
// Without the two lines of a body that say nothing of its task: the one that only declares what the
// function returns, and the one that returns it by its name.
int lines_of_task(const Lines& code) {
  const int all = static_cast<int>(code.size());
  std::smatch name;
  if (code.empty() || !std::regex_match(code.back(), name, std::regex("return ([A-Za-z_]\\w*);")))
    return all;
  const std::regex declares("[\\w:<>,& ]+ " + name[1].str() +
                            "( = [\\w.{}-]+|\\(.*\\)|\\{.*\\})?;( *//.*)?");
  const bool declared = std::any_of(code.begin(), code.end() - 1, [&](const std::string& line) {
    return std::regex_match(line, declares);
  });
  return declared ? all - 2 : all - 1;
}
std::map<std::string, int> lines_to_write() {
  std::map<std::string, int> count;
  for (const auto& [task, code] : code_by_task()) count[task] = lines_of_task(code);
  return count;
}

// What a line of code does, without the remark behind it.
std::string without_remark(const std::string& line) {
  const size_t end = line.find_last_not_of(' ', line.find("  //") - 1);
  return line.substr(0, end + 1);
}

// What a line computes: what stands behind `=` or `return`, else the line; without blanks, casts.
std::string expression_of(const std::string& line) {
  static const std::regex value("(?:return|[^=<>!]=) (.*)"), cast("static_cast<[^()]*>");
  std::smatch found;
  std::string text = std::regex_search(line, found, value) ? found[1].str() : line;
  text = std::regex_replace(text, cast, "");
  std::erase_if(text, [](char c) { return c == ' ' || c == ';'; });
  return text;
}

// Each line with the one before it, which is empty for the first; without blanks around them.
using LinePair = std::pair<std::string, std::string>;
std::set<LinePair> followers_in(const Lines& lines) {
  std::set<LinePair> followers;
  std::string before;
  for (const std::string& line : lines) {
    followers.insert({before, trimmed(line)});
    before = trimmed(line);
  }
  return followers;
}
void expect_no_pair(const std::string& task, const Lines& code,
                    const std::set<LinePair>& followers) {
  for (size_t i = 0; i + 1 < code.size(); ++i) {
    const bool telling = code[i].size() > 4 && code[i + 1].size() > 4;
    CHECK_MESSAGE((!telling || followers.count({code[i], code[i + 1]}) == 0),
                  fmt::format("{}: '{}', '{}'", task, code[i], code[i + 1]));
  }
}

// The commands of a text: "./yotta check 10 --hint".
std::vector<std::string> commands_in(const std::string& text) {
  std::vector<std::string> commands;
  const std::regex command("\\./yotta( [^ `\n]+)+");
  for (std::sregex_iterator at(text.begin(), text.end(), command), end; at != end; ++at)
    commands.push_back(at->str());
  return commands;
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// The tasks whose parts a wrong solution replaces; none: it is wrong outside of the parts.
std::vector<std::string> tasks_of_mistake(const Wrong& wrong) {
  return marked_parts(read_text(fmt::format("{}/wrong/{}.inc", the_exercise().folder, wrong.name)));
}

// Is one of these the task itself, or one that it needs?
bool concerns(const Task& task, const std::vector<std::string>& wrong) {
  return has(wrong, task.id) || std::any_of(task.needs.begin(), task.needs.end(),
                                            [&](const auto& id) { return has(wrong, id); });
}

// A mistake shows under its own task. Elsewhere only under tasks that need it, and there it says
// what to mend first.
void check_blame(const Wrong& wrong, const Grade& grade) {
  const std::vector<std::string> mistaken = tasks_of_mistake(wrong);
  if (mistaken.empty()) return;
  bool shown = false;
  for (const TaskResult& result : grade.tasks) {
    if (result.passed == result.cases) continue;
    shown = shown || has(mistaken, result.task.id);
    CHECK_MESSAGE(
        concerns(result.task, mistaken),
        fmt::format("{} fails, and does not need {}: {}", result.task.id, fmt::join(mistaken, ", "),
                    grade.first_failed(result.task.id)->message));
    if (!has(mistaken, result.task.id))
      CHECK_MESSAGE(has(mistaken, result.mend_first),
                    fmt::format("{} says '{}'", result.task.id, result.mend_first));
  }
  CHECK_MESSAGE(shown, fmt::format("no case of {} fails", fmt::join(mistaken, ", ")));
}

}  // namespace

TEST_CASE("every task has its words and its function, and the README shows that as it is") {
  const Exercise& exercise = the_exercise();
  for (const Task& task : exercise.tasks) CHECK_MESSAGE(!task.words.empty(), task.id);
  CHECK(marked_parts(exercise.library_text()).size() == exercise.tasks.size());
  CHECK_MESSAGE(contains(read_text(exercise.folder + "/README.md"), signatures_of(exercise)),
                fmt::format("run ./yotta exercise signatures {}", exercise.number()));
}

TEST_CASE("the starter compiles, and every graded case fails on it: not done, or not mended") {
  const Grade result = grade_of("starter");
  CHECK(result.cases.size() >= the_exercise().tasks.size());
  CHECK(result.points == 0);
  for (const CaseResult& one : result.cases) {
    CHECK_FALSE_MESSAGE(one.passed, one.name);
    for (const std::string& words : words_of_starter(one.task()))
      CHECK_MESSAGE(one.message.find(words) != std::string::npos, (one.name + ": " + one.message));
  }
}

TEST_CASE("the library earns every point, and every case belongs to a task") {
  const Grade result = grade_of("library");
  CHECK(result.complete());
  CHECK(names(result) == names(grade_of("starter")));
  int counted = 0;
  for (const TaskResult& task : result.tasks) {
    CHECK_MESSAGE(task.cases > 0, task.task.id);
    counted += task.cases;
  }
  CHECK(counted == static_cast<int>(result.cases.size()));
  for (const CaseResult& one : result.cases)
    CHECK_MESSAGE(one.passed, (one.name + ": " + one.message));
}

TEST_CASE("the library earns every point with the numbers of other keys too") {
  for (int key = 1; key <= (yotta_test::long_form() ? 6 : 1); ++key) {
    setenv("YOTTA_VARIANT", fmt::format("term {}", key).c_str(), 1);
    const Grade result = grade_of("library");
    CHECK(result.complete());
    for (const CaseResult& one : result.cases)
      CHECK_MESSAGE(one.passed, fmt::format("term {}: {}: {}", key, one.name, one.message));
  }
  unsetenv("YOTTA_VARIANT");
}

TEST_CASE("weights are of cases that there are, and every task has a case that weighs") {
  const Grade result = grade_of("library");
  const std::set<std::string> cases = names(result);
  for (const TaskResult& task : result.tasks) {
    CHECK_MESSAGE(task.solved, task.task.id);
    for (const auto& [name, weight] : task.task.weights)
      CHECK_MESSAGE(cases.count(name) == 1, ("there is no case " + name));
  }
}

TEST_CASE("each wrong solution is rejected by its case, with its words") {
  const Exercise& exercise = the_exercise();
  CHECK_FALSE(exercise.wrong.empty());
  for (const Wrong& wrong : exercise.wrong) {
    INFO(wrong.name);
    setenv("YOTTA_WRONG", wrong.name.c_str(), 1);
    const Grade result = grade_of("wrong");
    const auto found =
        std::find_if(result.cases.begin(), result.cases.end(),
                     [&](const CaseResult& one) { return one.name == wrong.rejected_by; });
    REQUIRE_MESSAGE(found != result.cases.end(), ("there is no case " + wrong.rejected_by));
    CHECK_FALSE_MESSAGE(found->passed, wrong.rejected_by);
    CHECK_FALSE(result.complete());
    check_blame(wrong, result);
    for (const std::string& words : wrong.says) {
      const bool said = found->message.find(words) != std::string::npos;
      CHECK_MESSAGE(said, fmt::format("not said: '{}', but: {}", words, found->message));
    }
  }
}

TEST_CASE("each right solution that is written differently earns every point") {
  const Exercise& exercise = the_exercise();
  const std::vector<std::string> names = names_in(exercise.folder + "/right");
  const bool is_begun = exercise.tasks.size() == 1;  // as the example of docs/
  const std::set<std::string> with_two = {"10", "13", "14", "18", "20", "23", "40"};
  CHECK(names.size() >= (with_two.count(exercise.number()) > 0 ? 2 : is_begun ? 0 : 1));
  for (const std::string& name : names) {
    INFO(name);
    setenv("YOTTA_WRONG", name.c_str(), 1);
    const Grade result = grade_of("wrong");
    CHECK(result.complete());
    for (const CaseResult& one : result.cases)
      CHECK_MESSAGE(one.passed, (one.name + ": " + one.message));
  }
}

TEST_CASE("a solution is right under the choices that it is written for, and under no others") {
  const Exercise& exercise = the_exercise();
  CHECK(exercise.choices.empty() == exercise.right_under.empty());
  for (const auto& [solution, choices] : exercise.right_under)
    for (const auto& [other, told] : exercise.right_under) {
      setenv("YOTTA_WRONG", solution.c_str(), 1);
      setenv("YOTTA_TOLD", told.c_str(), 1);
      const Grade result = grade_of(solution == "library" ? "library" : "wrong");
      CHECK_MESSAGE(result.complete() == (solution == other),
                    fmt::format("{} under {}", solution, told));
    }
  unsetenv("YOTTA_TOLD");
}

TEST_CASE("every wrong solution has its file, every file its entry, every task its hints") {
  const Exercise& exercise = the_exercise();
  std::vector<std::string> listed;
  for (const Wrong& wrong : exercise.wrong) listed.push_back(wrong.name);
  std::sort(listed.begin(), listed.end());
  const std::vector<std::string> files = names_in(exercise.folder + "/wrong");
  CHECK_MESSAGE(listed == files, fmt::format("exercise.json names: {}; in wrong/: {}",
                                             fmt::join(listed, ", "), fmt::join(files, ", ")));
  for (const Wrong& wrong : exercise.wrong) CHECK_MESSAGE(!wrong.says.empty(), wrong.name);
  for (const Task& task : exercise.tasks)
    CHECK_MESSAGE(read_hints(exercise, task.id).size() >= 2, (task.id + " in hints.md"));
}

TEST_CASE("tasks are numbered in their order, and their points add up to 100") {
  const Exercise& exercise = the_exercise();
  int points = 0, number = 0;
  for (const Task& task : exercise.tasks) {
    CHECK(task.id == fmt::format("{}.{}", exercise.number(), ++number));
    points += task.title.starts_with("bonus: ") ? 0 : task.points;
  }
  CHECK(points == 100);
}

TEST_CASE("the minutes of the tasks add up to the exercise's") {
  const Exercise& exercise = the_exercise();
  int minutes = 0;
  for (const Task& task : exercise.tasks) {
    CHECK_MESSAGE(task.minutes > 0, task.id);
    const bool is_warm_up = task.title.starts_with("warm-up: ");
    CHECK_MESSAGE((!is_warm_up || task.minutes <= 5), task.id);
    minutes += task.title.starts_with("bonus: ") ? 0 : task.minutes;
  }
  CHECK(minutes == exercise.minutes);
}

TEST_CASE("hints go in steps: the first of a task holds no line of its solution") {
  for (const auto& [task, code] : code_by_task()) {
    const std::vector<std::string> hints = read_hints(the_exercise(), task);
    REQUIRE_MESSAGE(!hints.empty(), task);
    CHECK_MESSAGE(std::set<std::string>(hints.begin(), hints.end()).size() == hints.size(), task);
    for (const std::string& line : code) {
      std::string does = without_remark(line);
      if (does.ends_with(';')) does.pop_back();
      CHECK_MESSAGE((does.size() < 15 || !contains(hints.front(), does)),
                    fmt::format("{}: the first hint says '{}'", task, does));
    }
  }
}

TEST_CASE("the starter holds no two lines of the solution that follow each other") {
  const std::set<LinePair> followers = followers_in(lines_of(starter_of(the_exercise())));
  CHECK(followers.size() > the_exercise().tasks.size());
  for (const auto& [task, code] : code_by_task())
    if (the_exercise().mend.count(task) == 0) expect_no_pair(task, code, followers);
}

TEST_CASE("the lesson quotes no two lines of a solution that follow each other, and no long one") {
  CHECK_FALSE(code_by_task().empty());
  const std::string readme =
      fmt::format("{}/lessons/{}/README.md", YOTTA_SOURCE_DIR, the_exercise().id);
  if (!std::filesystem::exists(readme)) return;  // debugging has no lesson of its own
  for (const Quote& quote : find_header_quotes(read_text(readme))) {
    const std::set<LinePair> followers = followers_in(quote.lines);
    for (const auto& [task, code] : code_by_task()) {
      expect_no_pair(task, code, followers);
      for (const std::string& line : code)
        for (const auto& [before, quoted] : followers)
          CHECK_MESSAGE((line.size() < 40 || without_remark(quoted) != without_remark(line)),
                        fmt::format("{}: '{}'", task, line));
    }
  }
}

TEST_CASE("the lesson says no expression of a solution, in code or in words") {
  CHECK(expression_of("  const auto x = static_cast<double>(a) / b;") == "(a)/b");
  const std::string readme =
      fmt::format("{}/lessons/{}/README.md", YOTTA_SOURCE_DIR, the_exercise().id);
  if (!std::filesystem::exists(readme)) return;  // debugging has no lesson of its own
  std::string text = std::regex_replace(read_text(readme), std::regex("static_cast<[^()\n]*>"), "");
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  for (const auto& [task, code] : code_by_task())
    for (const std::string& line : code) {
      const std::string expression = expression_of(without_remark(line));
      CHECK_MESSAGE((expression.size() < 20 || !contains(text, expression)),
                    fmt::format("{}: the lesson says '{}'", task, expression));
    }
}

TEST_CASE("the statement's commands are those of ./yotta, for this exercise and its file") {
  const Exercise& exercise = the_exercise();
  const std::string statement = read_text(exercise.folder + "/README.md"),
                    front_door = read_text(YOTTA_SOURCE_DIR "/yotta"),
                    options = run_limited({YOTTA_BUILD_DIR "/course/runner", "check", "--help"}, 20)
                                  .output;
  CHECK(contains(statement, fmt::format("work/{}/{}", exercise.id, exercise.file_name())));
  for (const std::string& command :
       commands_in(statement + read_text(exercise.folder + "/hints.md"))) {
    const std::regex form("\\./yotta ([a-z]+)( .*)?");
    std::smatch words;
    REQUIRE_MESSAGE(std::regex_match(command, words, form), command);
    CHECK_MESSAGE(contains(front_door, fmt::format("\n  ./yotta {} ", words[1].str())), command);
    if (words[1] != "check") continue;
    const std::string rest = words[2].str() + " ";
    CHECK_MESSAGE(rest.starts_with(" " + exercise.number() + " "), command);
    for (size_t at = 0; (at = rest.find("--", at)) != std::string::npos; ++at)
      CHECK_MESSAGE(contains(options, rest.substr(at, rest.find(' ', at) - at)), command);
  }
}

TEST_CASE("the README says how many lines there are to write, and has a row for each task") {
  const Exercise& exercise = the_exercise();
  const std::string text = read_text(exercise.folder + "/README.md");
  const std::map<std::string, int> lines = lines_to_write();
  int all = 0;
  for (const auto& [task, count] : lines) all += count;
  std::smatch said;
  REQUIRE_MESSAGE(std::regex_search(text, said, std::regex("\nAbout (\\d+) lines, ")),
                  "README.md has no line that begins with: About N lines, ");
  CHECK_MESSAGE(std::abs(std::stoi(said[1]) - all) <= 3, fmt::format("{} lines", all));
  for (const Task& task : exercise.tasks) {
    const std::string row = fmt::format("\n\\| {} \\| (.*) \\| {} \\|\n", task.id, task.points);
    REQUIRE_MESSAGE(
        std::regex_search(text, said, std::regex(row)),
        fmt::format("README.md has no row: | {} | what you write | {} |", task.id, task.points));
    const bool says_warm_up = said[1].str().find("warm-up") == 0;
    CHECK_MESSAGE(says_warm_up == (task.title.find("warm-up: ") == 0), task.title);
  }
}

TEST_CASE("an exercise of more than 20 minutes has 25 to 60 lines; one line is a warm-up") {
  const Exercise& exercise = the_exercise();
  const std::map<std::string, int> lines = lines_to_write();
  int all = 0;
  for (const auto& [task, count] : lines) all += count;
  const bool is_short = exercise.minutes <= 20;  // the first one, and the example of docs/
  CHECK_MESSAGE(all >= (is_short ? 5 : 25), fmt::format("{} lines", all));
  CHECK_MESSAGE(all <= (is_short ? 12 : 60), fmt::format("{} lines", all));
  for (const Task& task : exercise.tasks) {
    const bool is_warm_up = task.title.find("warm-up: ") == 0;
    CHECK_MESSAGE((!is_warm_up || task.points <= 10), task.title);
    if (lines.at(task.id) > 1 || exercise.mend.count(task.id) > 0) continue;
    CHECK_MESSAGE((is_warm_up && task.points <= 5), task.title);
  }
}
