// `./yotta check` from outside: the runner grades files of an exercise that is quick to compile. What it must never do is
// give one file another's verdict.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace runner;

namespace {

const Exercise& exercise() {
  static const Exercise matmul = read_exercise(YOTTA_SOURCE_DIR, "03_matmul");
  return matmul;
}

std::string solution(const std::string& variant) { return variant_of(exercise(), variant); }

Ending shell(const std::string& line) { return run_limited({"sh", "-c", line}, 100); }

// The words of a check of `file`, without its redirections.
std::string check_of(const std::string& file, const std::string& options = "") {
  return fmt::format("'{}/course/runner' check 03 --file '{}' {}", YOTTA_BUILD_DIR, file, options);
}

}  // namespace

TEST_CASE("checks of one exercise at once keep their own verdicts") {
  const yotta_test::TemporaryFolder folder;
  const std::vector<std::string> texts = {solution("library"), solution("starter"),
                                          "this is no C++\n"};
  std::string line;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string file = folder / fmt::format("{}.hpp", i);
    write_text(file, texts[i]);
    line += fmt::format("{} >'{}.out' 2>&1 & ",
                        check_of(file, fmt::format("--json '{}.json'", file)), file);
  }
  shell(line + "wait");
  const int points[] = {100, 0, 0};
  const bool compiles[] = {true, true, false};
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string file = folder / fmt::format("{}.hpp", i);
    INFO(read_text(file + ".out"));
    const auto verdict = nlohmann::json::parse(read_text(file + ".json"));
    CHECK(verdict["points"] == points[i]);
    CHECK(verdict["compiled"] == compiles[i]);
    CHECK(verdict["file"] == file);
  }
}

TEST_CASE("a file is graded by what it holds, whatever its time stamp says") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "mine.hpp";
  write_text(file, solution("starter"));
  const auto before = fs::last_write_time(file) - std::chrono::hours(1);
  CHECK(shell(check_of(file)).status == 1);
  write_text(file, solution("library"));
  fs::last_write_time(file, before);
  const Ending ending = shell(check_of(file));
  CHECK_MESSAGE(ending.status == 0, ending.output);
}
