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

// `line` with its last `wrong` replaced.
std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  return text.replace(at, what.size(), by);
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

TEST_CASE("a verdict of bytes that are no text is written all the same, to a pipe too") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "mine.hpp";
  write_text(file, replaced(solution("starter"), "not_done(\"03.1\")",
                            "throw std::runtime_error(\"caf\\xe9 \\xff\")"));
  const Ending ending =
      shell("timeout 20 " + check_of(file, "--json /dev/stdout 2>/dev/null | cat"));
  const auto verdict = nlohmann::json::parse(ending.output, nullptr, /*allow_exceptions=*/false);
  REQUIRE_MESSAGE(verdict.is_object(), ending.output);
  CHECK(verdict["points"] == 0);
  CHECK(verdict.dump().find("caf\xef\xbf\xbd") != std::string::npos);
}

TEST_CASE("who cannot grade says so, with a status of its own, and gives no points") {
  const yotta_test::TemporaryFolder folder;
  const std::string file = folder / "mine.hpp", json = folder / "verdict.json";
  write_text(file, solution("library"));
  write_text(json, "{\"points\": 100}\n");  // an old verdict
  const Ending ending = shell("PATH=/nowhere; " + check_of(file, "--json '" + json + "'"));
  CHECK(ending.status == 3);
  CHECK_MESSAGE(ending.output.find("could not grade") != std::string::npos, ending.output);
  const auto verdict = nlohmann::json::parse(read_text(json));
  CHECK(verdict["graded"] == false);
  CHECK_FALSE(verdict.contains("points"));
  CHECK(shell(check_of(folder / "nothing.hpp")).status == 3);
}
