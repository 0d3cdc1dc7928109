#include "runner/submissions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

#include "runner/topics.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

// Folders that begin with a dot are no students, nor is what macOS adds to archives.
std::vector<fs::path> student_folders(const std::string& folder) {
  if (!fs::is_directory(folder)) throw std::runtime_error("there is no folder " + folder);
  std::vector<fs::path> students;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(".") && name != "__MACOSX" && fs::is_directory(fs::status(entry.path())))
      students.push_back(entry.path());
  }
  std::sort(students.begin(), students.end());
  if (students.empty())
    throw std::runtime_error(
        fmt::format("{} has no student's folder in it; expected {}/STUDENT/NN_topic/header.hpp",
                    folder, folder));
  return students;
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  const auto end = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end.first == outer.end();
}

// The folder of an exercise: the first of the two places that is there, or where its file lies
// alone; empty: none.
fs::path exercise_folder(const fs::path& student, const Exercise& exercise) {
  std::error_code ignored;
  for (const fs::path& place : {student / exercise.id, student / "work" / exercise.id})
    if (fs::is_directory(place, ignored)) return place;
  for (const fs::path& place : {student, student / "work"})
    if (fs::exists(fs::symlink_status(place / exercise.file_name(), ignored))) return place;
  return {};
}

bool leads_out(const fs::path& path, const fs::path& student, const fs::path& folder) {
  return !lies_in(fs::canonical(path), fs::canonical(folder) / student.filename());
}

// Empty: it may be read.
std::string why_refused(const fs::path& file, const fs::path& student, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return "it is a link that leads nowhere";
  const fs::path own = fs::canonical(folder) / student.filename();
  if (!lies_in(real, own)) return "it is a link that leads out of the student's folder";
  if (!fs::is_regular_file(real, error)) return "it is not a regular file";
  const auto size = fs::file_size(real, error);
  if (error || size > most_source_bytes)
    return fmt::format("it is too large: more than {} bytes", most_source_bytes);
  return "";
}

// "nothing.hpp, notes.txt": what lies there in place of what was expected.
std::string listing(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  if (names.size() > 8) names.resize(8), names.push_back("...");
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

std::string record(const fs::path& file, const fs::path& student, const fs::path& folder) {
  return fs::exists(file) && why_refused(file, student, folder).empty() ? read_text(file) : "";
}

void read_file(const fs::path& file, const fs::path& student, const fs::path& folder,
               Submission& submission) {
  submission.why = why_refused(file, student, folder);
  submission.handed = submission.why.empty() ? Handed::file : Handed::refused;
  if (submission.handed == Handed::refused) return;
  try {
    submission.text = read_text(file);
    submission.state = record(file.parent_path() / ".state.json", student, folder);
    submission.progress =
        record(file.parent_path().parent_path() / "progress.json", student, folder);
  } catch (const std::runtime_error& error) {
    submission.handed = Handed::unreadable, submission.why = error.what();
  }
}

Submission read_submission(const fs::path& student, const Exercise& exercise,
                           const fs::path& folder) {
  Submission submission{student.filename(), exercise.id};
  try {
    const fs::path place = exercise_folder(student, exercise);
    const fs::path file = place / exercise.file_name();
    const bool linked = leads_out(place.empty() ? student : place, student, folder);
    if (place.empty() && !linked)
      submission.why = fmt::format("there is neither a folder {} nor a file {}; there is: {}",
                                   exercise.id, exercise.file_name(), listing(student));
    else if (linked)
      submission.handed = Handed::refused,
      submission.why = "it is a folder that is a link out of the student's folder";
    else if (!fs::exists(fs::symlink_status(file)))
      submission.why = fmt::format("there is no file {}/{}; there is: {}", exercise.id,
                                   exercise.file_name(), listing(place));
    else
      read_file(file, student, folder, submission);
  } catch (const fs::filesystem_error& error) {
    submission.handed = Handed::unreadable, submission.why = error.what();
  }
  return submission;
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

}  // namespace

std::vector<Exercise> handed_in_exercises(const std::string& folder,
                                          const std::vector<Exercise>& exercises) {
  const std::vector<fs::path> students = student_folders(folder);
  std::vector<Exercise> found;
  for (const Exercise& exercise : exercises)
    if (std::any_of(students.begin(), students.end(), [&](const fs::path& student) {
          return !exercise_folder(student, exercise).empty();
        }))
      found.push_back(exercise);
  return found;
}

std::vector<Exercise> chosen_exercises(const std::vector<std::string>& names,
                                       const std::string& folder) {
  std::vector<Topic> topics;
  std::map<std::string, Exercise> all;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    topics.push_back({id, id.substr(0, 2), id.substr(3), ""});
    all.emplace(id, read_exercise(YOTTA_SOURCE_DIR, id));
  }
  std::set<std::string> chosen;
  for (const std::string& name : names) chosen.insert(choose(topics, name, "exercise").id);
  std::vector<Exercise> exercises;
  for (const auto& [id, exercise] : all)
    if (names.empty() || chosen.count(id) > 0) exercises.push_back(exercise);
  return names.empty() ? handed_in_exercises(folder, exercises) : exercises;
}

std::vector<std::string> ids_of(const std::vector<Exercise>& exercises) {
  std::vector<std::string> ids;
  for (const Exercise& exercise : exercises) ids.push_back(exercise.id);
  return ids;
}

std::vector<Submission> find_submissions(const std::string& folder,
                                         const std::vector<Exercise>& exercises) {
  std::vector<Submission> all;
  for (const fs::path& student : student_folders(folder))
    for (const Exercise& exercise : exercises)
      all.push_back(read_submission(student, exercise, folder));
  return all;
}

bool is_unchanged(const Submission& submission, const std::string& starter) {
  const std::string text = without_blanks(submission.text);
  return text.empty() || text == without_blanks(starter);
}

}  // namespace runner
