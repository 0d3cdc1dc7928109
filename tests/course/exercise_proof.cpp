// Is an exercise fair? For the exercise that YOTTA_EXERCISE names: the starter is a fresh cut and fails
// every case, the library passes all, and each wrong solution is rejected by the case and with the words
// that exercise.json promises. The programs are built by exercises/CMakeLists.txt.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "runner/grade.hpp"
#include "support/from_ctest.hpp"

using namespace runner;

namespace {

const Exercise& the_exercise() {
  static const Exercise exercise =
      read_exercise(YOTTA_SOURCE_DIR, yotta_test::from_ctest("YOTTA_EXERCISE"));
  return exercise;
}

Grade grade_of(const std::string& variant) {
  const Exercise& exercise = the_exercise();
  return grade(exercise,
               fmt::format("{}/exercises/exercise_{}_{}", YOTTA_BUILD_DIR, exercise.id, variant),
               20);
}

std::set<std::string> names(const Grade& grade) {
  std::set<std::string> all;
  for (const CaseResult& one : grade.cases) all.insert(one.name);
  return all;
}

// What a case of the starter says: that its task is not done yet, or what the mistake says that is to be mended.
Lines words_of_starter(const std::string& task) {
  const Exercise& exercise = the_exercise();
  for (const Wrong& wrong : exercise.wrong)
    if (exercise.mend.count(task) > 0 && exercise.mend.at(task) == wrong.name) return wrong.says;
  return {"is not done yet"};
}

// Lines of code in each part of the library's headers: what a student is to write.
std::map<std::string, int> lines_to_write() {
  const std::string header = the_exercise().library_text();
  const Lines lines = lines_of(header);
  const std::vector<std::string> parts = part_of_lines(header);
  std::map<std::string, int> count;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t begin = lines[i].find_first_not_of(' ');
    if (!parts[i].empty() && begin != std::string::npos && lines[i].compare(begin, 2, "//") != 0)
      ++count[parts[i]];
  }
  return count;
}

}  // namespace

TEST_CASE("the starter is a fresh cut of the library's header, with a part for every task") {
  const Exercise& exercise = the_exercise();
  const std::string header = exercise.library_text();
  const bool fresh = read_text(exercise.starter()) == fresh_starter(exercise);
  CHECK_MESSAGE(fresh, fmt::format("run ./yotta check {} --cut", exercise.number()));
  std::vector<std::string> tasks, parts = marked_parts(header);
  for (const Task& task : exercise.tasks) tasks.push_back(task.id);
  std::sort(parts.begin(), parts.end());  // a header may have them in another order
  CHECK(parts == tasks);
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
    for (const std::string& words : wrong.says) {
      const bool said = found->message.find(words) != std::string::npos;
      CHECK_MESSAGE(said, fmt::format("not said: '{}', but: {}", words, found->message));
    }
  }
}

TEST_CASE("each right solution that is written differently earns every point") {
  const std::filesystem::path folder = the_exercise().folder + "/right";
  if (!std::filesystem::is_directory(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem();
    INFO(name);
    setenv("YOTTA_WRONG", name.c_str(), 1);
    const Grade result = grade_of("wrong");
    CHECK(result.complete());
    for (const CaseResult& one : result.cases)
      CHECK_MESSAGE(one.passed, (one.name + ": " + one.message));
  }
}

TEST_CASE("every wrong solution has its file, every file its entry, every task its hints") {
  const Exercise& exercise = the_exercise();
  std::set<std::string> listed, there;
  for (const Wrong& wrong : exercise.wrong) listed.insert(wrong.name);
  for (const auto& entry : std::filesystem::directory_iterator(exercise.folder + "/wrong"))
    there.insert(entry.path().stem());
  CHECK(listed == there);
  for (const Task& task : exercise.tasks)
    CHECK_MESSAGE(read_hints(exercise, task.id).size() >= 2, task.id);
}

TEST_CASE("the README says how many lines there are to write, and has a row for each task") {
  const Exercise& exercise = the_exercise();
  const std::string text = read_text(exercise.folder + "/README.md");
  const std::map<std::string, int> lines = lines_to_write();
  int all = 0;
  for (const auto& [task, count] : lines) all += count;
  std::smatch said;
  REQUIRE(std::regex_search(text, said, std::regex("\nAbout (\\d+) lines, ")));
  CHECK_MESSAGE(std::abs(std::stoi(said[1]) - all) <= 3, fmt::format("{} lines", all));
  for (const Task& task : exercise.tasks) {
    const std::string row = fmt::format("\n\\| {} \\| (.*) \\| {} \\|\n", task.id, task.points);
    REQUIRE_MESSAGE(std::regex_search(text, said, std::regex(row)), task.id);
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
