#include "runner/autograder.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/json_output.hpp"
#include "runner/places.hpp"
#include "runner/submissions.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double pack_seconds = 120;

void run_in(const std::string& folder, std::vector<std::string> command) {
  command.insert(command.begin(), {"env", "-C", folder});
  const Ending ending = run_limited(command, pack_seconds);
  if (!ending.well())
    throw std::runtime_error(fmt::format("{} failed: {}", command[3], ending.output));
}

// "v0.2.0-41-g8372a06".
std::string version() {
  const Ending ending = run_limited(
      {"git", "-C", YOTTA_SOURCE_DIR, "describe", "--tags", "--always", "--dirty"}, pack_seconds);
  if (!ending.well())
    throw std::runtime_error(
        "this tree has no git history; an autograder is bound to a commit: use a clone");
  return ending.output.substr(0, ending.output.find('\n'));
}

// Grades a file of one line for each exercise, as a submission is graded: that installs and builds
// all that is needed.
std::string setup_script(const std::vector<Exercise>& exercises) {
  std::string text =
      "#!/bin/sh\n# Installs what grading needs and builds the graders, once.\nset -eu\n"
      "root=${AUTOGRADER_ROOT:-/autograder}\ntree=${YOTTA_TREE:-$root/yotta}\nmkdir -p \"$tree\"\n"
      "tar -xzf \"$root/source/yotta.tar.gz\" -C \"$tree\"\nclass=$(mktemp -d)\n"
      "trap 'rm -rf \"$class\" \"$class.grades\"' EXIT\n";
  for (const Exercise& exercise : exercises)
    text +=
        fmt::format("mkdir -p \"$class/begun/{0}\"\necho '// begun' >\"$class/begun/{0}/{1}\"\n",
                    exercise.id, exercise.file_name());
  return text + "\"$tree/yotta\" grade \"$class\" --jobs 1\n";
}

// A word of a shell's command line.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string run_script(const std::vector<Exercise>& exercises, const AutograderOptions& options) {
  const std::string variant =
      options.variant.empty() ? "" : " --variant " + quoted(options.variant);
  std::string names;
  for (const Exercise& exercise : exercises)
    names += (names.empty() ? "" : ",") + exercise.number();
  return fmt::format(
      R"(#!/bin/sh
# Grades one submission. Without results.json Gradescope says that the autograder failed.
set -u
root=${{AUTOGRADER_ROOT:-/autograder}}
tree=${{YOTTA_TREE:-$root/yotta}}
given=$root/submission
class=$(mktemp -d)
trap 'rm -rf "$class" "$class.grades" "$class.packed"' EXIT
export YOTTA_INSTALL=no # setup.sh has done that
mkdir -p "$root/results" "$class.packed"
rm -f "$root/results/results.json"
if [ -f "$given/yotta-work.tar.gz" ]; then
  cp -- "$given/yotta-work.tar.gz" "$class.packed/student.tar.gz"
  "$tree/yotta" collect "$class.packed" --out "$class"
fi
mkdir -p "$class/student"
cp -RP -- "$given/." "$class/student/"
"$tree/yotta" grade "$class" --exercises {} --jobs 1 --visibility {}{}
status=$?
[ $status -eq 0 ] || [ $status -eq 4 ] || exit 1 # 4: a file is not recognised, which the student reads
cp "$class.grades/students/student/results.json" "$root/results/results.json"
)",
      names, options.visibility, variant);
}

void write_script(const std::string& path, const std::string& text) {
  write_text(path, text);
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                            fs::perms::others_read | fs::perms::others_exec);
}

nlohmann::json make_zip(const AutograderOptions& options) {
  const std::vector<Exercise> exercises = chosen_exercises(options.exercises, "");
  const std::string commit = version();
  const RunFolder folder(YOTTA_BUILD_DIR "/autograders");
  const std::string place = folder.path() + "/source";
  write_script(place + "/setup.sh", setup_script(exercises));
  write_script(place + "/run_autograder", run_script(exercises, options));
  write_text(place + "/VERSION", commit + "\n");
  run_in(YOTTA_SOURCE_DIR,
         {"git", "archive", "--format=tar.gz", "-o", place + "/yotta.tar.gz", "HEAD"});
  run_in(place, {"cmake", "-E", "tar", "cf", fs::absolute(options.out), "--format=zip", "setup.sh",
                 "run_autograder", "VERSION", "yotta.tar.gz"});
  fmt::print("{} is bound to {}{}\n", options.out, commit,
             commit.ends_with("-dirty") ? ", without what is not committed" : "");
  return {{"file", options.out},
          {"commit", commit},
          {"exercises", ids_of(exercises)},
          {"variant", options.variant}};
}

}  // namespace

int autograder(const AutograderOptions& options) {
  try {
    if (!options.out.ends_with(".zip"))
      throw std::runtime_error("--out must name a file that ends with .zip");
    if (options.variant.find("{student}") != std::string::npos)
      throw std::runtime_error(
          "--variant has {student}, and Gradescope's grader does not know whose work it grades: "
          "give all students one key, or grade with `./yotta grade --variant`");
    JsonOutput json(options.json);
    json.write(make_zip(options));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 2;
  }
}

}  // namespace runner
