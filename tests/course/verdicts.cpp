// Points, messages and compile errors of `./yotta check`, from records and logs that are made up
// here.
#include "runner/apart.hpp"
#include "runner/memory_error.hpp"
#include "runner/salvage.hpp"
#include "runner/solution.hpp"
#include "runner/verdict.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/message_of.hpp"
#include "support/told_record.hpp"

namespace fs = std::filesystem;
using namespace runner;
using yotta_test::contains;
using yotta_test::TemporaryFolder;

namespace {

struct Case {
  std::string name;
  bool passed = true;
  std::string message = "because";
};

// A program of graded cases that writes the record of these, whatever it is asked for, and ends.
std::string program_of(const TemporaryFolder& folder, const std::vector<Case>& cases) {
  std::string text;
  for (const Case& one : cases)
    text += fmt::format("start\t{}\t\n{}\t{}\t{}\n", one.name, one.passed ? "passed" : "failed",
                        one.name, one.message);
  return yotta_test::program_that_says(folder, text + "end\t\t\n");
}

Exercise exercise_of(std::vector<Task> tasks) {
  Exercise exercise;
  exercise.id = "07_sums";
  exercise.tasks = std::move(tasks);
  return exercise;
}

Grade grade_of(const Exercise& exercise, const std::vector<Case>& cases) {
  const TemporaryFolder folder;
  return grade(exercise, program_of(folder, cases));
}

// A task of 40 points, and what these cases of it earn.
int points_of(const std::vector<Case>& cases, const std::map<std::string, int>& weights = {}) {
  return grade_of(exercise_of({{"7.1", "one", 40, weights}}), cases).points;
}

Verdict verdict_of(const Grade& grade) {
  Verdict verdict;
  verdict.file = "/w/sums.hpp";
  verdict.grade = grade;
  return verdict;
}

// On a terminal of 120 letters a line.
int lines_on_screen(const std::string& text) {
  int count = 0;
  for (const std::string& line : lines_of(text)) count += 1 + static_cast<int>(line.size()) / 120;
  return count;
}

// Lines 3 to 5 are 7.1, lines 7 to 9 are 7.2.
const std::string marked =
    "#pragma once\nint a() {\n  // exercise 7.1: one\n  one\n  // end of exercise 7.1\n}\n"
    "\t// exercise 7.2: two\n  two\n\t// end of exercise 7.2\n}\nint last;\n";

std::vector<PartErrors> errors_of(const std::string& log) {
  return errors_by_part(log, "/w/sums.hpp", marked);
}
std::string at(int line, const std::string& what) {
  return fmt::format("/w/sums.hpp:{}:3: error: {}\n", line, what);
}

// exercises/07_sums with these tasks.
Exercise read_tasks(const std::string& tasks) {
  const TemporaryFolder root;
  fs::create_directories(root / "exercises/07_sums");
  write_text(root / "exercises/07_sums/exercise.json",
             R"({"header": "a/sums.hpp", "title": "", "minutes": 1, "difficulty": "easy",
                 "prerequisites": [], "outcomes": [], "wrong": [], "tasks": [)" +
                 tasks + "]}");
  return read_exercise(root.path(), "07_sums");
}
Lines needs_of_last_task(const std::string& tasks) { return read_tasks(tasks).tasks.back().needs; }

// What reading these tasks says: the error, or what two cases of the first weigh.
std::string said_of_task(const std::string& tasks) {
  try {
    const Task task = read_tasks(tasks).tasks[0];
    return fmt::format("{} {}", task.weight("7.1: a"), task.weight("7.1: b"));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("each case earns its share of its task's points, rounded down") {
  CHECK(points_of({{"7.1: a"}, {"7.1: b"}, {"7.1: c"}}) == 40);
  CHECK(points_of({{"7.1: a"}, {"7.1: b"}, {"7.1: c", false}}) == 26);
  CHECK(points_of({{"7.1: a"}, {"7.1: b", false}, {"7.1: c", false}}) == 13);
  CHECK(points_of({{"7.1: a", false}}) == 0);
  CHECK(points_of({}) == 0);
}

TEST_CASE("cases may weigh more, or nothing") {
  const std::vector<Case> b_fails = {{"7.1: a"}, {"7.1: b", false}};
  CHECK(points_of(b_fails, {{"7.1: a", 3}}) == 30);
  CHECK(points_of(b_fails, {{"7.1: b", 3}}) == 10);
  CHECK(points_of(b_fails, {{"7.1: b", 0}}) == 40);
  CHECK(points_of({{"7.1: a", false}, {"7.1: b"}}, {{"7.1: b", 0}}) == 0);

  const Exercise exercise = exercise_of({{"7.1", "one", 40, {{"7.1: b", 0}}}});
  const Verdict verdict = verdict_of(grade_of(exercise, b_fails));
  CHECK(verdict.complete());
  CHECK(contains(verdict_text(exercise, verdict), "7.1: b (a remark, which takes no points)\n"));
}

TEST_CASE("exercise.json's weights are of cases of their task, and never below 0") {
  const std::string task = R"("id": "7.1", "title": "one", "points": 40)";
  CHECK(said_of_task("{" + task + "}") == "1 1");
  CHECK(said_of_task("{" + task + R"(, "weights": {"7.1: b": 3}})") == "1 3");
  CHECK(contains(said_of_task("{" + task + R"(, "weights": {"7.2: b": 3}})"),
                 "task 7.1 weighs a case of another, '7.2: b'"));
  CHECK(contains(said_of_task("{" + task + R"(, "weights": {"7.1: b": -1}})"),
                 "the case '7.1: b' weighs -1; 0 is least"));
}

TEST_CASE("the cases that count are the library's, each once") {
  const TemporaryFolder folder;
  const Exercise exercise = exercise_of({{"7.1", "one", 40}});
  const std::string library = program_of(folder, {{"7.1: a"}, {"7.1: b"}});
  const auto graded = [&](const std::vector<Case>& cases) {
    return fair_grade(exercise, program_of(folder, cases), library);
  };
  CHECK(graded({{"7.1: a"}, {"7.1: b"}}).complete());
  // A file with cases of its own, of another name and of the same.
  const Grade more = graded({{"7.1: a"}, {"7.1: b", false}, {"7.1: mine"}, {"7.1: mine too"}});
  CHECK(more.points == 20);
  CHECK(contains(verdict_text(exercise, verdict_of(more)), "'7.1: mine' is not a case of this"));
  CHECK(graded({{"7.1: a"}, {"7.1: b", false}, {"7.1: b"}}).points == 20);
  CHECK(graded({{"7.1: a"}, {"7.1: b"}, {"7.1: b", false}}).points == 20);
  const Grade less = graded({{"7.1: a"}});
  CHECK(less.points == 20);
  CHECK(less.tasks[0].cases == 2);
  CHECK(contains(verdict_text(exercise, verdict_of(less)), "7.1: b\n  it did not run\n"));
}

TEST_CASE(
    "cases that a file with empty parts passes earn nothing before the others of their task") {
  const TemporaryFolder folder;
  const Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 10}});
  const auto cases = [&](bool a, bool b, bool c) {
    return program_of(folder, {{"7.1: a", a}, {"7.1: b", b}, {"7.1: c", c}, {"7.2: a"}});
  };
  const std::string all = cases(true, true, true);
  const std::vector<std::string> by_nothing = {"7.1: c", "7.2: a"};
  const auto graded = [&](bool a, bool b, bool c) {
    return fair_grade(exercise, cases(a, b, c), all, by_nothing);
  };
  CHECK(graded(true, true, true).points == 50);
  CHECK(graded(true, true, false).points == 36);
  CHECK(graded(true, false, true).points == 23);
  CHECK(graded(false, false, true).points == 0);
  CHECK(graded(true, false, false).points == 23);
  CHECK(contains(verdict_text(exercise, verdict_of(graded(false, false, true))),
                 "Cases that an empty part passes too count when the others"));
  CHECK_FALSE(contains(verdict_text(exercise, verdict_of(graded(true, true, false))), "too count"));
  CHECK(passed_by_nothing(cases(true, false, false)) == Lines{"7.1: a", "7.2: a"});
}

TEST_CASE("every task that is not solved shows its first message") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 30}, {"7.3", "", 30}});
  const Verdict verdict = verdict_of(
      grade_of(exercise, {{"7.1: a", false, "first"},
                          {"7.1: b", false, "second"},
                          {"7.2: a"},
                          {"7.2: b", false, "third"},
                          {"7.3: a", false, "sums.hpp:3: exercise 7.1 is not done yet"}}));
  const std::string text = verdict_text(exercise, verdict);
  CAPTURE(text);
  CHECK(contains(text, "\n7.1: a\n  first\n7.2: b\n  third\n"));
  CHECK(contains(text, "\n7.3: sums.hpp:3: exercise 7.1 is not done yet\n"));
  CHECK_FALSE(contains(text, "second"));
  CHECK(contains(text, "15 of 30 points  1/2 cases"));
  CHECK(contains(text, "\n15 of 100 points\n"));
  const nlohmann::json json = verdict_json(exercise, verdict);
  CHECK(json["tasks"][0]["message"] == "first");
  CHECK(json["tasks"][1]["solved"] == false);
  CHECK(json["cases"].size() == 5);
}

TEST_CASE("a task that uses one which is not solved says to mend that first, and no more") {
  Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 30}, {"7.3", "", 30}});
  exercise.tasks[1].needs = {"7.1"};
  exercise.tasks[2].needs = {"7.1", "7.2"};
  const std::vector<Case> cases = {{"7.1: a", false, "rows"},
                                   {"7.2: a", false, "columns\\nlook at columns"},
                                   {"7.3: a", false, "exercise 7.3 is not done yet"}};
  const Verdict verdict = verdict_of(grade_of(exercise, cases));
  const std::string text = verdict_text(exercise, verdict);
  CAPTURE(text);
  CHECK(contains(text, "\n7.1: a\n  rows\n7.2: mend 7.1 first: 7.2 uses it\n7.3: exercise 7.3 is"));
  CHECK_FALSE(contains(text, "columns"));
  CHECK(contains(verdict_text(exercise, verdict, {"7.2"}), "7.2: mend 7.1 first: 7.2 uses it"));
  CHECK(contains(verdict_text(exercise, verdict, {"", true}),
                 "7.2: a\n  mend 7.1 first: 7.2 uses it\n  columns\n  look at columns\n"));
  const nlohmann::json tasks = verdict_json(exercise, verdict)["tasks"];
  CHECK(tasks[0]["mend_first"].is_null());
  CHECK(tasks[1]["mend_first"] == "7.1");
  CHECK(tasks[1]["message"] == "mend 7.1 first: 7.2 uses it\ncolumns\nlook at columns");
}

TEST_CASE(
    "where there is no library to judge a task with, the verdict says that, once it is begun") {
  Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 30}, {"7.3", "", 30}});
  exercise.tasks[1].needs = exercise.tasks[2].needs = {"7.1"};
  Grade grade = grade_of(exercise, {{"7.1: a", false}, {"7.2: a", false}, {"7.3: a", false}});
  mark_not_apart({"7.1", "7.2"}, grade);
  const std::string text = verdict_text(exercise, verdict_of(grade));
  CHECK_MESSAGE(contains(text, "\n7.2 could not be judged alone: this tree has no right solution"),
                text);
  const nlohmann::json tasks = verdict_json(exercise, verdict_of(grade))["tasks"];
  for (const int task : {0, 1, 2}) CHECK(tasks[task]["not_apart"] == (task == 1));
  mark_not_apart({"7.1"}, grade);
  CHECK_FALSE(contains(verdict_text(exercise, verdict_of(grade)), "judged alone"));
}

TEST_CASE("what is to be mended first is a task that itself waits for none") {
  Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 30}, {"7.3", "", 30}});
  exercise.tasks[0].needs = {"7.2", "7.3"};
  exercise.tasks[1].needs = {"7.3"};
  const Grade grade = grade_of(exercise, {{"7.1: a", false}, {"7.2: a", false}, {"7.3: a", false}});
  CHECK(grade.tasks[0].mend_first == "7.3");
  CHECK(grade.tasks[1].mend_first == "7.3");
  CHECK(grade.tasks[2].mend_first.empty());
}

TEST_CASE("a task whose needs are solved says what is wrong with itself") {
  Exercise exercise = exercise_of({{"7.1", "one", 40, {{"7.1: b", 0}}}, {"7.2", "two", 30}});
  exercise.tasks[1].needs = {"7.1"};
  const Verdict verdict = verdict_of(grade_of(
      exercise, {{"7.1: a"}, {"7.1: b", false, "a remark"}, {"7.2: a", false, "columns"}}));
  CHECK(contains(verdict_text(exercise, verdict), "7.2: a\n  columns\n"));
  CHECK_FALSE(contains(verdict_text(exercise, verdict), "first"));
}

TEST_CASE("what a task needs is another task; it needs what that one needs too") {
  const std::string one = R"({"id": "7.1", "title": "", "points": 40})",
                    two = R"(, {"id": "7.2", "title": "", "points": 3, "needs": ["7.1"]})";
  const auto three = [](const std::string& needs) {
    return R"(, {"id": "7.3", "title": "", "points": 3, "needs": [)" + needs + "]}";
  };
  CHECK(needs_of_last_task(one + two + three(R"("7.2")")) == Lines{"7.1", "7.2"});
  CHECK(needs_of_last_task(one + two) == Lines{"7.1"});
  CHECK(contains(said_of_task(one + two + three(R"("7.3")")), "task 7.3 needs itself"));
  CHECK(contains(said_of_task(one + two + three(R"("7.4")")), "7.3 needs 7.4, and there is none"));
  const std::string later = R"({"id": "7.1", "title": "", "points": 40, "needs": ["7.2"]})";
  CHECK(contains(said_of_task(later + two), "needs itself"));
}

TEST_CASE("a verdict is one screen, however much the cases say") {
  std::vector<Task> tasks;
  std::vector<Case> cases;
  std::string message = std::string(2000, 'x');
  for (int line = 0; line < 50; ++line) message += "\\nline " + std::to_string(line);
  for (int i = 1; i <= 9; ++i) {
    tasks.push_back({fmt::format("7.{}", i), "a task", 10});
    cases.push_back({fmt::format("7.{}: a", i), false, message});
    const Exercise exercise = exercise_of(tasks);
    const Verdict verdict = verdict_of(grade_of(exercise, cases));
    const std::string text = verdict_text(exercise, verdict);
    CAPTURE(text);
    CHECK(lines_on_screen(text) <= Shown{}.lines);
    CHECK(contains(text, "-v shows them"));
    CHECK_FALSE(contains(text, "line 49"));  // there are more lines where there is more room
    CHECK(contains(verdict_text(exercise, verdict, {.lines = 400}), "line 49"));
    for (const Case& one : cases) CHECK(contains(text, one.name + "\n  xxx"));
    CHECK(verdict_json(exercise, verdict)["tasks"][0]["message"].get<std::string>().size() > 2300);
  }
}

TEST_CASE("what was begun has the room of what was not") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 30}});
  std::string message;
  for (int line = 0; line < 16; ++line) message += "\\nline " + std::to_string(line);
  const Verdict verdict = verdict_of(
      grade_of(exercise, {{"7.1: a", false, "x.hpp:3: exercise 7.1 is not done yet: write it"},
                          {"7.2: a", false, "wrong" + message}}));
  CHECK(contains(verdict_text(exercise, verdict), "line 15"));
}

TEST_CASE("a long line is cut between two words") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}});
  std::string message;
  for (int i = 0; i < 100; ++i) message += "abcdef ";
  const std::string text =
      verdict_text(exercise, verdict_of(grade_of(exercise, {{"7.1: a", false, message}})));
  CHECK_MESSAGE(contains(text, "abcdef ...\n"), text);
}

TEST_CASE("a student's text cannot clear the screen") {
  CHECK(printable("a\x1b[2Jb\r\n\tc\x7f \xc2\x9b \xc3\xa9") == "a?[2Jb?\n\tc? \xc2? \xc3\xa9");
  const Grade grade = grade_of(exercise_of({{"7.1", "one", 40}}),
                               {{"7.1: a", false, "\x1b[2J\\n\x1b[H40 of 40 points"}});
  CHECK(grade.cases[0].message == "?[2J\n?[H40 of 40 points");
}

TEST_CASE("a line is in the part whose marks are around it, and broken marks are borne with") {
  const Lines parts = part_of_lines(marked);
  CHECK(parts == Lines{"", "", "7.1", "7.1", "7.1", "", "7.2", "7.2", "7.2", "", ""});
  CHECK(part_of_lines("// exercise 7.1: x\na\n// exercise 7.2\nb\n") ==
        Lines{"7.1", "7.1", "7.2", "7.2"});
  CHECK(part_of_lines("// end of exercise 7.1\na\n") == Lines{"", ""});
}

TEST_CASE("compile errors are told by the part that they are in, each with its first message") {
  const auto errors = errors_of("/w/sums.hpp: In function 'int a()':\n" + at(8, "late") +
                                "    8 |   two\n      |   ^~~\n      |   2\n      |   more\n" +
                                at(4, "early") + "    4 |   one\n" + at(4, "again"));
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].part == "7.2");
  CHECK(errors[0].line == 8);
  CHECK(errors[0].text == at(8, "late") + "    8 |   two\n      |   ^~~\n      |   2\n");
  CHECK(errors[1].part == "7.1");
  CHECK(errors[1].text == at(4, "early") + "    4 |   one\n");
  CHECK(errors[1].more == 1);
}

TEST_CASE(
    "an error outside of the parts says after which one, or goes to the bracket that is open") {
  const auto last = errors_of(at(11, "expected ';'"));
  REQUIRE(last.size() == 1);
  CHECK(last[0].part.empty());
  CHECK(last[0].after == "7.2");
  CHECK(errors_of(at(2, "x")).at(0).after.empty());
  CHECK(errors_of(at(99, "x")).at(0).after == "7.2");
  const auto open = errors_of(at(11, "expected '}' at end of input") +
                              "/w/sums.hpp:4:7: note: to match this '{'\n");
  CHECK(open.at(0).part == "7.1");
}

TEST_CASE("errors in other files count for the line that includes or asks for them") {
  const auto included = errors_of(
      "In file included from /w/sums.hpp:1,\n                 from /x/adapter.cpp:4:\n"
      "/w/bad.hpp:2:1: error: expected ')'\n");
  REQUIRE(included.size() == 1);
  CHECK(included[0].line == 1);
  CHECK(included[0].elsewhere);
  const auto asked = errors_of(
      "/usr/include/algo.h: In instantiation of 'f()':\n/w/sums.hpp:8:3:   required from here\n"
      "/usr/include/algo.h:90:1: error: no match\n");
  CHECK(asked.at(0).part == "7.2");
  CHECK(contains(asked.at(0).text, "    8 |   two\n"));
  const auto noted = errors_of(
      "/usr/include/algo.h:90:1: error: no match\n"
      "/w/sums.hpp:4:3: note: in instantiation of 'f' requested here\n");
  CHECK(noted.at(0).part == "7.1");
  CHECK(errors_of("/usr/include/algo.h:90:1: error: no match\n").empty());
  CHECK(errors_of("/x/adapter.cpp:7:1: error: no match\n/w/sums.hpp:2:5: note: declared here\n")
            .empty());
}

TEST_CASE("functions without a body are named, as either linker says it") {
  CHECK(without_body("a.cpp:(.text+0x5): undefined reference to `yotta::f(int)'\n"
                     "b.cpp:(.text+0x9): undefined reference to `yotta::f(int)'\n"
                     "ld.lld: error: undefined symbol: yotta::g()\n>>> referenced by a.cpp\n") ==
        Lines{"yotta::f(int)", "yotta::g()"});
}

TEST_CASE("what does not compile keeps the points of the last version that did, and says so") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 60}});
  const Grade before = grade_of(exercise, {{"7.1: a"}, {"7.2: a", false}, {"7.2: b"}});
  Verdict verdict = verdict_of(grade_of_kept(exercise, kept_tasks(before)).value());
  verdict.kept_from = "2026-11-22 10:00";
  verdict.compile_errors = "it is wrong";
  verdict.part_errors = errors_of(at(8, "wrong"));
  const std::string text = verdict_text(exercise, verdict);
  CAPTURE(text);
  CHECK(contains(text, "In 7.2, two:\n  /w/sums.hpp:8:3: error: wrong\n"));
  CHECK(contains(
      text,
      "70 of 100 points: those of your last version that compiled, graded 2026-11-22 10:00\n"));
  const nlohmann::json json = verdict_json(exercise, verdict);
  CHECK(json["points"] == 70);
  CHECK(json["compiled"] == false);
  CHECK(json["complete"] == false);
  CHECK(json["kept_from"] == "2026-11-22 10:00");
  CHECK(json["errors_by_task"][0]["task"] == "7.2");
  CHECK(json["tasks"][1]["passed"] == 1);
}

TEST_CASE("all points that were kept are no complete exercise while it does not compile") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}});
  Verdict verdict = verdict_of(grade_of(exercise, {{"7.1: a"}}));
  CHECK(verdict.complete());
  verdict.compile_errors = "it is wrong";
  CHECK_FALSE(verdict.complete());
}

TEST_CASE("points are kept by task: new tasks begin with none, and others keep their share") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}});
  const nlohmann::json kept = kept_tasks(grade_of(exercise, {{"7.1: a"}}));
  CHECK(grade_of_kept(exercise, kept)->points == 40);
  CHECK(grade_of_kept(exercise_of({{"7.1", "one", 50}}), kept)->points == 50);
  const Grade more = grade_of_kept(exercise_of({{"7.0", "", 5}, {"7.1", "", 40}}), kept).value();
  CHECK(more.points == 40);
  CHECK(more.of == 45);
  CHECK_FALSE(more.complete());
  CHECK_FALSE(grade_of_kept(exercise_of({{"7.2", "one", 40}}), kept));
}

TEST_CASE(
    "points that were forged count for no more than the task has; what is no list of tasks for "
    "nothing") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}});
  nlohmann::json forged = kept_tasks(grade_of(exercise, {{"7.1: a"}}));
  forged[0]["points"] = 1000;
  CHECK(grade_of_kept(exercise, forged)->points == 40);
  forged[0]["of"] = 0;
  CHECK(grade_of_kept(exercise, forged)->points == 0);
  forged[0]["points"] = "all";
  CHECK_FALSE(grade_of_kept(exercise, forged));
  for (const char* other : {"null", "[]", "[1]", "{}", "\"x\""})
    CHECK_FALSE(grade_of_kept(exercise, nlohmann::json::parse(other)));
}

TEST_CASE("a part that does not compile is left out, and the others are graded") {
  const Lines marked_lines = lines_of(marked);
  CHECK(suspects(errors_of(at(4, "early") + at(8, "late")), marked) == Lines{"7.1", "7.2"});
  CHECK(suspects(errors_of(at(11, "after")), marked) == Lines{"7.2"});
  std::string open = marked;
  open.replace(open.find("  one\n"), 6, "  if (')' == c) { // }\n");
  CHECK(suspects(errors_of(at(8, "late")), open) == Lines{"7.1"});
  const std::string starter =
      "// exercise 7.1\nnot_done(\"7.1\");\n// end of exercise 7.1\n"
      "// exercise 7.2\nfirst\nsecond\n// end of exercise 7.2\n";
  std::string expected = marked;
  expected.replace(expected.find("  one\n"), 6, "not_done(\"7.1\");\n");
  CHECK(with_starter_parts(marked, starter, {"7.1"}) == expected);
  CHECK(lines_of(with_starter_parts(marked, starter, {"7.2"})).size() == marked_lines.size() + 1);
  CHECK(with_starter_parts(marked, starter, {}) == marked);
}

TEST_CASE("the verdict says which tasks do not compile, and shows the others'") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 60}});
  const std::string not_done = "sums.hpp:8: exercise 7.2 is not done yet";
  Verdict verdict = verdict_of(grade_of(exercise, {{"7.1: a"}, {"7.2: a", false, not_done}}));
  verdict.compile_errors = "it is wrong";
  verdict.part_errors = errors_of(at(11, "caused by it") + at(8, "wrong"));
  verdict.left_out = {"7.2"};
  const std::string text = verdict_text(exercise, verdict);
  CAPTURE(text);
  CHECK(contains(text, "In 7.2, two:\n  /w/sums.hpp:8:3: error: wrong\n"));
  CHECK_FALSE(contains(text, "caused by it"));
  CHECK(contains(text, "The rest compiles without 7.2, and was graded:"));
  CHECK_FALSE(contains(text, "is not done yet"));
  CHECK(contains(text, "\n40 of 100 points\n"));
  CHECK(verdict_json(exercise, verdict)["left_out"] == Lines{"7.2"});
  CHECK(verdict.solved("7.1"));
  CHECK_FALSE(verdict.solved("7.2"));
  CHECK_FALSE(verdict.solved(""));
  verdict.left_out = {"7.1"};
  CHECK(contains(verdict_text(exercise, verdict), "The brackets in 7.1, one do not match."));
  CHECK_FALSE(verdict.solved("7.1"));
}

TEST_CASE("a warning whose meaning is known is shown when a case failed") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}});
  const std::string log =
      "/w/sums.hpp:4:3: warning: no return statement in function\n    4 |   one\n";
  const std::string other = "/w/sums.hpp:4:3: warning: unused variable 'x'\n";
  Verdict verdict = verdict_of(grade_of(exercise, {{"7.1: a", false}}));
  verdict.warnings = warnings_by_part(other + log, "/w/sums.hpp", marked);
  const std::string text = verdict_text(exercise, verdict);
  CHECK_MESSAGE(contains(text, "The compiler warns:\n"), text);
  CHECK_MESSAGE(contains(text, "can end without a return"), text);
  CHECK(errors_of(log).empty());
  verdict.warnings[0].text =
      "x.hpp:4:3: warning: " + std::string(60, 'x') + " from 'long' to 'int'";
  CHECK(contains(verdict_text(exercise, verdict), "from 'long' to 'int'\n"));
  verdict.grade = grade_of(exercise, {{"7.1: a"}});
  CHECK_FALSE(contains(verdict_text(exercise, verdict), "warns"));
}

TEST_CASE("one task's verdict holds its cases, and what befell the program") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 60}});
  const Verdict verdict = verdict_of(grade_of(
      exercise, {{"7.1: a", false, "first"}, {"7.2: a"}, {whole_program, false, "it crashed"}}));
  const std::string text = verdict_text(exercise, verdict, {"7.2"});
  CAPTURE(text);
  CHECK(verdict.solved("7.2"));
  CHECK_FALSE(contains(text, "first"));
  CHECK(contains(text, "it crashed"));
  CHECK(contains(text, "60 of 60 points"));
  CHECK(contains(verdict_text(exercise, verdict, {"7.1"}), "./yotta hint 7.1\n"));
}

TEST_CASE("what the program printed is shown when a case failed, ten lines of it or all") {
  const Exercise exercise = exercise_of({{"7.1", "one", 40}});
  Verdict verdict = verdict_of(grade_of(
      exercise,
      {{"7.1: a", false, "first"}, {"7.1: b", false, "second"}, {"7.1: c", false, "third"}}));
  for (int i = 1; i <= 30; ++i) verdict.grade.output += fmt::format("printed {}\n", i);
  const std::string text = verdict_text(exercise, verdict);
  CHECK(contains(text, "printed 10\n"));
  CHECK_FALSE(contains(text, "printed 11\n"));
  CHECK(contains(text, "20 more lines: -v shows them"));
  CHECK_FALSE(contains(text, "second"));
  const std::string all = verdict_text(exercise, verdict, {"", true});
  for (const char* words : {"first", "second", "third", "printed 30"}) CHECK(contains(all, words));
  verdict.grade.cases.clear();
  CHECK_FALSE(contains(verdict_text(exercise, verdict), "printed"));
}

TEST_CASE("hints take no points unless exercise.json says so, and never more than were earned") {
  Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 3}, {"7.3", "three", 10}});
  const Grade all = grade_of(exercise, {{"7.1: a"}, {"7.2: a"}, {"7.3: a"}});
  const std::map<std::string, int> read = {{"7.1", 2}, {"7.2", 1}, {"7.3", 0}};
  Grade grade = all;
  take_hint_points(exercise, read, grade);
  CHECK(grade.points == 53);
  exercise.points_per_hint = 5;
  take_hint_points(exercise, read, grade);
  CHECK(grade.tasks[0].points == 30);
  CHECK(grade.tasks[1].points == 0);
  CHECK(grade.tasks[1].hint_points == 3);
  CHECK(grade.points == 40);
  CHECK(grade.complete());
  CHECK(kept_tasks(grade) == [&] {
    nlohmann::json without = kept_tasks(all);
    without[0]["hint_points"] = 10, without[1]["hint_points"] = 3;
    return without;
  }());
}

TEST_CASE("the verdict names the hints that were read") {
  const TemporaryFolder folder;
  Exercise exercise = exercise_of({{"7.1", "one", 40}, {"7.2", "two", 60}});
  exercise.folder = folder.path();
  write_text(folder / "hints.md", "## 7.1\n\nfirst\n\nsecond\n\n## 7.10\n\nother\n");
  CHECK(read_hints(exercise, "7.1") == Lines{"first", "second"});
  Verdict verdict = verdict_of(grade_of(exercise, {{"7.1: a"}, {"7.2: a"}}));
  CHECK(verdict_json(exercise, verdict)["hints"].is_null());
  CHECK_FALSE(contains(verdict_text(exercise, verdict), "Hints"));
  verdict.hints = std::vector<HintsRead>{{"7.1", 1, 2}, {"7.2", 0, 0}};
  CHECK(contains(verdict_text(exercise, verdict), "Hints read: 7.1: 1 of 2\n"));
  CHECK(verdict_json(exercise, verdict)["hints"] ==
        nlohmann::json::parse(R"([{"task": "7.1", "read": 1, "of": 2, "hints": ["first"]}])"));
}

TEST_CASE("AddressSanitizer's report is read in the words of all its versions") {
  const std::string before = "mine\n", stack =
                                           "    #0 0x7f01  (/lib/libasan.so.8+0x4768)\n"
                                           "    #1 0x5501  (/a b/run.x/program+0x5b4b)\n";
  const auto report = [&](const std::string& what, const std::string& how,
                          const std::string& more) {
    return before + "====\n==2==ERROR: AddressSanitizer: " + what + " 0x60 at pc 0x7f\n" + how +
           stack + more;
  };
  const MemoryReport freed = memory_report(
      report("heap-use-after-free on address", "READ of size 4 at 0x60 thread T0\n",
             "0x60 is located 12 bytes inside of 40-byte region [0x5a,0x7c)\n"
             "freed by thread T0 here:\n    #0 0x5502 (/r/program+0x1f) (BuildId: 12ab)\n"
             "previously allocated by thread T0 here:\n    #0 0x5503 (/r/program+0x2f)\n"
             "Thread T1 created by T0 here:\n    #0 0x5503 (/r/program+0x3f)\n"));
  CHECK(freed.kind == "heap-use-after-free");
  CHECK(freed.access == "reads");
  CHECK(freed.bytes == 4);
  CHECK(freed.here == MemoryReport::Stack{"", "0x5b4b"});
  CHECK(freed.freed == MemoryReport::Stack{"0x1f"});
  CHECK(freed.allocated == MemoryReport::Stack{"0x2f"});
  for (const auto& [located, says] : std::vector<std::pair<std::string, std::string>>{
           {"0 bytes to the right of 40-byte", "right behind a block of 40 bytes"},
           {"4 bytes after 40-byte", "4 bytes behind a block of 40 bytes"},
           {"8 bytes to the left of 12-byte", "8 bytes before a block of 12 bytes"}}) {
    const std::string text = report("heap-buffer-overflow on address", "WRITE of size 8 at 0x60\n",
                                    "0x60 is located " + located + " region [0x5a,0x7c)\n");
    CHECK(memory_report(text).beside == says);
    CHECK(contains(memory_error(text, "/no/program"),
                   "the library or a test writes 8 bytes, " + says));
    CHECK(without_report(text) == before);
  }
  CHECK(contains(memory_error(report("attempting double-free on", "", ""), "/no/program"),
                 "frees memory that was freed before\n(AddressSanitizer: double-free)"));
  CHECK(contains(memory_error(report("SEGV on unknown address",
                                     "The signal is caused by a READ memory access.\n", ""),
                              "/no/program"),
                 "reads an address that is nobody's"));
  CHECK(memory_error("AddressSanitizer\n", "/no/program") == "");
  CHECK(without_report(before) == before);
}

TEST_CASE("graded cases that cannot be built: what failed is said, or that it took too long") {
  Ending ending;
  ending.status = 1;
  ending.output = "[1/2] Building a.o\n[2/2] Building b.o\nFAILED: b.o\nb.cpp:1:1: error: no\n";
  CHECK(why_unbuilt(ending) == "cannot be built:\nFAILED: b.o\nb.cpp:1:1: error: no\n");
  ending.output = "ninja: error: no room\n";
  CHECK(contains(why_unbuilt(ending), "ninja: error: no room"));
  ending.output = "";
  CHECK(contains(why_unbuilt(ending), "cmake cannot be started"));
  ending.too_late = true;
  CHECK(contains(why_unbuilt(ending), "not built within 60 minutes"));
  CHECK(contains(why_unbuilt(ending), "it goes on where it stopped"));
}
