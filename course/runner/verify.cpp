#include "runner/verify.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/json_output.hpp"
#include "runner/places.hpp"
#include "runner/submission.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double build_seconds = 1800, proof_seconds = 600;
constexpr const char* program = YOTTA_BUILD_DIR "/tests/course/exercise_proof";

// Is there a file to compile? One that exercise.json names and that is missing is a proof that
// fails, and no target of Ninja's.
bool has_other_solutions(const Exercise& exercise) {
  for (const char* folder : {"wrong", "right"}) {
    const fs::path place = fs::path(exercise.folder) / folder;
    if (fs::is_directory(place) && !fs::is_empty(place)) return true;
  }
  return false;
}

// Empty, or what the compiler said.
std::string build_error(const Exercise& exercise) {
  std::vector<std::string> command = {"cmake", "--build", YOTTA_BUILD_DIR, "--target",
                                      "exercise_proof"};
  for (const char* variant : {"starter", "library", "wrong"})
    if (variant != std::string("wrong") || has_other_solutions(exercise))
      command.push_back(fmt::format("exercise_{}_{}", exercise.id, variant));
  const FileLock lock(build_lock());
  const Ending ending = run_limited(command, build_seconds);
  return ending.well() ? "" : "its programs cannot be built:\n" + ending.output;
}

Ending run_proof(const Exercise& exercise, const std::vector<std::string>& options) {
  std::vector<std::string> command = {"env", "YOTTA_EXERCISE=" + exercise.id, program,
                                      "--order-by=file"};
  command.insert(command.end(), options.begin(), options.end());
  return run_limited(command, proof_seconds);
}

// Without doctest's frame: the line of the proof that failed, its values, and what was said.
void print_indented(const std::string& text) {
  for (const std::string& line : lines_of(printable(text))) {
    const bool frame = line.starts_with("[doctest]") || line.starts_with("=====") ||
                       line.starts_with("TEST CASE:") || line.ends_with(".cpp:") ||
                       trimmed(line).empty();
    if (!frame) fmt::print("          {}\n", line);
  }
}

// Whether all hold. Prints a line for each proof, and what is wrong below it; the same for programs
// goes into `list`.
bool verify(const Exercise& exercise, nlohmann::json& list) {
  list.push_back({{"exercise", exercise.id},
                  {"wrong", exercise.wrong.size()},
                  {"build_error", ""},
                  {"proofs", nlohmann::json::array()}});
  fmt::print("{}: {}\n", exercise.id, exercise.title);
  std::fflush(stdout);
  if (const std::string error = build_error(exercise); !error.empty()) {
    print_indented(error);
    list.back()["build_error"] = error;
    return false;
  }
  const std::vector<std::string> proofs =
      listed_cases(run_proof(exercise, {"--list-test-cases"}).output);
  size_t holding = 0;
  for (size_t i = 1; i <= proofs.size(); ++i) {
    const Ending ending =
        run_proof(exercise, {fmt::format("--first={}", i), fmt::format("--last={}", i)});
    fmt::print("  {}  {}\n", ending.well() ? "holds " : "FAILS ", proofs[i - 1]);
    list.back()["proofs"].push_back({{"name", proofs[i - 1]},
                                     {"holds", ending.well()},
                                     {"output", ending.well() ? "" : ending.output}});
    if (!ending.well()) print_indented(ending.output);
    std::fflush(stdout);
    holding += ending.well() ? 1 : 0;
  }
  fmt::print("{} of {} proofs hold, with {} wrong solution{}\n\n", holding, proofs.size(),
             exercise.wrong.size(), exercise.wrong.size() == 1 ? "" : "s");
  return !proofs.empty() && holding == proofs.size();
}

}  // namespace

std::vector<std::string> listed_cases(const std::string& output) {
  std::vector<std::string> cases;
  for (const std::string& line : lines_of(output))
    if (!line.empty() && !line.starts_with("[doctest]") && !line.starts_with("====="))
      cases.push_back(line);
  return cases;
}

int verify(const std::string& name, const std::string& json) {
  if (fs::exists(YOTTA_SOURCE_DIR "/handout"))
    throw UsageError("this tree was handed out: it has no solutions to prove an exercise with");
  std::vector<Topic> topics;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR))
    topics.push_back({id, id.substr(0, 2), id.substr(3), ""});
  if (!name.empty()) topics = {choose(topics, name, "exercise")};
  JsonOutput output(json);
  nlohmann::json list = nlohmann::json::array();
  bool all = true;
  for (const Topic& topic : topics)
    all = verify(read_exercise(YOTTA_SOURCE_DIR, topic.id), list) && all;
  output.write({{"exercises", list}, {"all_hold", all}});
  return all ? 0 : 1;
}

}  // namespace runner
