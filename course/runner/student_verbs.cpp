#include "runner/student_verbs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "course/options/console.hpp"
#include "runner/json_output.hpp"
#include "runner/progress.hpp"
#include "runner/submission.hpp"
#include "runner/verdict.hpp"

namespace fs = std::filesystem;
using yotta::console::Color;
using yotta::console::paint;

namespace runner {
namespace {

// What was earned of an exercise.
struct Standing {
  int points = 0, of = 0;
  bool begun = false, complete = false;
};

Standing standing(const Exercise& exercise) {
  const Grade grade = read_progress(exercise).grade(exercise).value_or(no_points(exercise));
  return {grade.points, grade.of, begun(exercise), grade.complete()};
}

bool mentions(const Exercise& exercise, const std::string& word) {
  return lower(exercise.id + " " + exercise.title + " " + exercise.difficulty).find(lower(word)) !=
         std::string::npos;
}

std::string list_row(const Exercise& exercise, const Standing& standing) {
  const std::string points = standing.begun || standing.points > 0
                                 ? fmt::format("{:>3} of {}", standing.points, standing.of)
                                 : "";
  return fmt::format("  {} {:<28} {:>3} minutes  {:<7} {:<10}  {}\n",
                     standing.complete ? paint(Color::green, "✓")
                     : standing.begun  ? "·"
                                       : " ",
                     exercise.id, exercise.minutes, exercise.difficulty, points, exercise.title);
}

std::string task_row(const Task& task) {
  return fmt::format(
      "      {:<5} {:>3} minutes  {:<7} {:>3} points  {}{}\n", task.id, task.minutes,
      task.difficulty, task.points, task.title,
      task.needs.empty() ? "" : fmt::format("  (uses {})", fmt::join(task.needs, ", ")));
}

nlohmann::json task_json(const Task& task) {
  return {{"id", task.id},           {"title", task.title},           {"points", task.points},
          {"minutes", task.minutes}, {"difficulty", task.difficulty}, {"needs", task.needs}};
}

nlohmann::json list_json(const Exercise& exercise, const Standing& standing) {
  nlohmann::json json = {{"id", exercise.id},
                         {"title", exercise.title},
                         {"minutes", exercise.minutes},
                         {"difficulty", exercise.difficulty},
                         {"prerequisites", exercise.prerequisites},
                         {"outcomes", exercise.outcomes},
                         {"tasks", exercise.tasks.size()},
                         {"each", nlohmann::json::array()},
                         {"points", standing.points},
                         {"of", standing.of},
                         {"begun", standing.begun},
                         {"complete", standing.complete}};
  for (const Task& task : exercise.tasks) json["each"].push_back(task_json(task));
  return json;
}

// With what it is about: for a list of one exercise.
void print_outline(const Exercise& exercise) {
  for (const Task& task : exercise.tasks) fmt::print("{}", task_row(task));
  if (!exercise.prerequisites.empty())
    fmt::print("    Before it: {}\n", fmt::join(exercise.prerequisites, ", "));
  fmt::print("    After it you can\n");
  for (const std::string& outcome : exercise.outcomes) fmt::print("    - {}\n", outcome);
}

bool agreed(const std::string& question) {
  fmt::print("{} [y/N] ", question);
  std::fflush(stdout);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

void print_hints(const std::string& task, const std::vector<std::string>& hints, size_t most) {
  for (size_t i = 0; i < std::min(most, hints.size()); ++i)
    fmt::print("{}\n{}\n",
               paint(Color::bold, fmt::format("{}, hint {} of {}", task, i + 1, hints.size())),
               indented(hints[i]));
}

void print_solution(const Exercise& exercise, const std::string& id) {
  const std::string solution = where_the_solution_is(exercise);
  fmt::print("There are no more hints.");
  for (const Task& task : exercise.tasks)
    if (task.id == id && !solution.empty())
      fmt::print(" A solution stands in {}: {}.", solution, name_of_function(task));
  fmt::print("\n");
}

}  // namespace

int list_exercises(const std::string& word, const std::string& json) {
  JsonOutput output(json);
  nlohmann::json document = nlohmann::json::array();
  std::vector<Exercise> shown = all_exercises();
  std::erase_if(shown, [&](const Exercise& one) { return !mentions(one, word); });
  for (const Exercise& exercise : shown) {
    const Standing now = standing(exercise);
    fmt::print("{}", list_row(exercise, now));
    document.push_back(list_json(exercise, now));
  }
  if (shown.size() == 1) print_outline(shown.front());
  if (document.empty()) fmt::print("No exercise has '{}' in its name or title.\n", word);
  output.write(document);
  return 0;
}

std::string where_the_solution_is(const Exercise& exercise) {
  std::string paths;
  for (const std::string& header : exercise.headers) {
    const std::string path = "include/yotta/" + header;
    const std::string full = fmt::format("{}/{}", YOTTA_SOURCE_DIR, path);
    if (!fs::exists(full) || read_text(full).find("\"yotta/handed_out.hpp\"") != std::string::npos)
      return "";
    paths += (paths.empty() ? "" : " and ") + path;
  }
  return paths;
}

int hint(const std::string& name) {
  const Chosen chosen = choose_exercise(name);
  const Exercise& exercise = chosen.exercise;
  OwnProgress progress(exercise);
  const std::string task = chosen.task.empty() ? progress.open_task(exercise) : chosen.task;
  if (task == no_open_task) {
    fmt::print("Every task is solved.\n");
    return 0;
  }
  const std::vector<std::string> hints = read_hints(exercise, task);
  const auto read = static_cast<size_t>(progress.hints(task));
  print_hints(task, hints, read + 1);
  if (read < hints.size()) progress.set_hints(task, static_cast<int>(read + 1));
  if (exercise.points_per_hint > 0)
    fmt::print("Each hint takes {} of the task's points.\n", exercise.points_per_hint);
  if (read + 1 < hints.size()) fmt::print("Run it again for the next one.\n");
  if (read >= hints.size()) print_solution(exercise, task);
  return 0;
}

int reset(const std::string& name, bool yes) {
  const Exercise exercise = choose_exercise(name).exercise;
  const std::string file = exercise.work_copy();
  if (!yes && isatty(STDIN_FILENO) == 0)
    throw UsageError("there is no terminal to ask on: add --yes to do it without a question");
  if (!yes && begun(exercise) &&
      !agreed(fmt::format("Start {} again? Your file is kept beside it.", relative(file))))
    return 1;
  fmt::print("{} is the starter again.\n", relative(start_again(exercise)));
  return 0;
}

}  // namespace runner
