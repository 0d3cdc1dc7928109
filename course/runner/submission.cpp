#include "runner/submission.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "runner/places.hpp"
#include "runner/progress.hpp"
#include "runner/topics.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

// The print of the starter that the file was copied from; empty: not known.
constexpr const char* copied = "starter";

bool is_untouched(const Progress& progress, const std::string& file) {
  return fs::exists(file) && print_of(read_text(file)) == progress.text(copied);
}

std::string copy_starter(const Exercise& exercise, OwnProgress& progress) {
  const std::string file = exercise.work_copy(), starter = starter_of(exercise);
  write_text(file, starter);
  progress.set(copied, print_of(starter));
  return file;
}

std::string task_named(const Exercise& exercise, const std::string& number) {
  std::string tasks;
  for (const Task& task : exercise.tasks) {
    if (task.id.substr(task.id.find('.') + 1) == number) return task.id;
    tasks += (tasks.empty() ? "" : ", ") + task.id;
  }
  throw UsageError(fmt::format("exercise {} has no task '{}.{}'; it has {}", exercise.id,
                               exercise.number(), number, tasks));
}

}  // namespace

std::vector<Exercise> all_exercises() {
  std::vector<Exercise> all;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR))
    all.push_back(read_exercise(YOTTA_SOURCE_DIR, id));
  return all;
}

Chosen choose_exercise(const std::string& name) {
  std::vector<Topic> topics;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR))
    topics.push_back({id, id.substr(0, 2), id.substr(3), ""});
  const size_t dot = name.find('.');
  Chosen chosen;
  try {
    chosen.exercise =
        read_exercise(YOTTA_SOURCE_DIR, choose(topics, name.substr(0, dot), "exercise").id);
  } catch (const NoSuchTopic& error) {
    throw UsageError(error.what());
  }
  if (dot != std::string::npos) chosen.task = task_named(chosen.exercise, name.substr(dot + 1));
  return chosen;
}

bool begun(const Exercise& exercise) {
  const std::string file = exercise.work_copy();
  return fs::is_regular_file(file) && !is_untouched(read_progress(exercise), file);
}

std::string student_file(const Exercise& exercise) {
  OwnProgress progress(exercise);
  const std::string file = exercise.work_copy();
  if (!fs::exists(file)) {
    fmt::print("Your file is {}: {} without the functions that you write.\n", relative(file),
               exercise.file_name());
    return copy_starter(exercise, progress);
  }
  if (is_untouched(progress, file)) return copy_starter(exercise, progress);
  const std::string from = progress.text(copied);
  if (!from.empty() && from != print_of(starter_of(exercise)))
    fmt::print("The starter has changed since you began; your file is as you left it.\n");
  return file;
}

std::string start_again(const Exercise& exercise) {
  OwnProgress progress(exercise);
  const std::string file = exercise.work_copy();
  if (fs::exists(file) && !is_untouched(progress, file))
    fmt::print("Your file was kept as {}.\n", relative(keep_copy(file)));
  return copy_starter(exercise, progress);
}

bool is_own(const Exercise& exercise, const std::string& file) {
  std::error_code ignored;
  return fs::equivalent(file, exercise.work_copy(), ignored);
}

}  // namespace runner
