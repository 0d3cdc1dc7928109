#include "runner/submissions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "runner/student_folder.hpp"
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
        fmt::format("{} has no student's folder in it; expected {}/STUDENT/NN_topic/header.hpp. "
                    "`./yotta collect {} --out CLASS` sorts files and archives by student",
                    folder, folder, folder));
  return students;
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  const auto end = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end.first == outer.end();
}

// All of them: a file may be of an exercise that nobody asks for.
const std::vector<Exercise>& exercises_of_course() {
  static const std::vector<Exercise> all = [] {
    std::vector<Exercise> read;
    for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR))
      read.push_back(read_exercise(YOTTA_SOURCE_DIR, id));
    return read;
  }();
  return all;
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

std::string within(const fs::path& file, const fs::path& student) {
  return file.lexically_relative(student).string();
}

// Where versions of an exercise's file are, the one in the usual place first.
std::vector<FoundFile> versions_of(const Exercise& exercise, const fs::path& usual,
                                   const StudentFolder& files) {
  std::vector<FoundFile> versions;
  if (fs::exists(fs::symlink_status(usual)))
    versions.push_back({usual, exercise.id, FoundBy::name});
  for (const FoundFile& one : files.of(exercise))
    if (one.file != usual) versions.push_back(one);
  return versions;
}

// "found by its functions: <one file>; not graded: <another>".
std::string note_on(const FoundFile& graded, const std::vector<FoundFile>& versions, bool usual,
                    const fs::path& student) {
  std::vector<std::string> others;
  for (const FoundFile& one : versions)
    if (one.file != graded.file) others.push_back(within(one.file, student));
  const std::string file = within(graded.file, student);
  std::string note;
  if (graded.by == FoundBy::content)
    note = "graded was " + file + ", found by its functions";
  else if (!usual || !others.empty())
    note = "graded was " + file;
  if (!others.empty())
    note += fmt::format("; other versions were not graded: {}", fmt::join(others, ", "));
  return note;
}

// The first version that is more than the starter; or the first.
void read_best(const std::vector<FoundFile>& versions, const Exercise& exercise,
               const fs::path& usual, const fs::path& student, const fs::path& folder,
               Submission& submission) {
  const Submission none = submission;
  const std::string starter = versions.size() > 1 ? starter_of(exercise) : "";
  std::optional<Submission> first;
  for (const FoundFile& one : versions) {
    submission = none;
    read_file(one.file, student, folder, submission);
    submission.file = within(one.file, student);
    submission.note = note_on(one, versions, one.file == usual, student);
    if (!first) first = submission;
    if (submission.handed == Handed::file && !is_unchanged(submission, starter)) return;
  }
  submission = *first;
}

// "NOT_TAKEN.txt" says why: its words, too.
std::string unknown_files(const std::vector<fs::path>& files, const fs::path& student) {
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    const bool says_why = file.filename() == not_taken_file && !fs::is_symlink(file);
    names.push_back(says_why ? trimmed(read_text(file).substr(0, 4096)) : within(file, student));
  }
  if (names.size() > 8) names.resize(8), names.push_back("...");
  return fmt::format("{}", fmt::join(names, ", "));
}

void say_what_is_missing(const Exercise& exercise, const fs::path& place, const fs::path& student,
                         const StudentFolder& files, Submission& submission) {
  submission.why = place.empty()
                       ? fmt::format("there is neither a folder {} nor a file {}; there is: {}",
                                     exercise.id, exercise.file_name(), listing(student))
                       : fmt::format("there is no file {}/{}; there is: {}", exercise.id,
                                     exercise.file_name(), listing(place));
  if (files.unknown.empty()) return;
  submission.handed = Handed::unrecognised;
  if (files.found.empty() && files.unknown.size() == 1 &&
      files.unknown[0].filename() == not_taken_file) {
    submission.why = unknown_files(files.unknown, student);
    return;
  }
  submission.why +=
      fmt::format("\nof no exercise that is known: {}", unknown_files(files.unknown, student));
}

Submission read_submission(const fs::path& student, const Exercise& exercise,
                           const fs::path& folder, const StudentFolder& files) {
  Submission submission{student.filename(), exercise.id};
  try {
    const fs::path place = exercise_folder(student, exercise);
    const fs::path usual = place.empty() ? fs::path() : place / exercise.file_name();
    if (leads_out(place.empty() ? student : place, student, folder)) {
      submission.handed = Handed::refused;
      submission.why = "it is a folder that is a link out of the student's folder";
      return submission;
    }
    const std::vector<FoundFile> versions = versions_of(exercise, usual, files);
    if (versions.empty())
      say_what_is_missing(exercise, place, student, files, submission);
    else
      read_best(versions, exercise, usual, student, folder, submission);
  } catch (const fs::filesystem_error& error) {
    submission.handed = Handed::unreadable, submission.why = error.what();
  }
  return submission;
}

// A link to another folder is not looked into.
StudentFolder files_of(const fs::path& student) {
  return fs::is_symlink(student) ? StudentFolder{} : look_into(student, exercises_of_course());
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

}  // namespace

std::vector<Exercise> handed_in_exercises(const std::string& folder,
                                          const std::vector<Exercise>& exercises) {
  std::set<std::string> ids;
  for (const fs::path& student : student_folders(folder)) {
    for (const FoundFile& one : files_of(student).found) ids.insert(one.exercise);
    for (const Exercise& exercise : exercises)
      if (!exercise_folder(student, exercise).empty()) ids.insert(exercise.id);
  }
  std::vector<Exercise> found;
  std::copy_if(exercises.begin(), exercises.end(), std::back_inserter(found),
               [&](const Exercise& exercise) { return ids.count(exercise.id) > 0; });
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
  for (const fs::path& student : student_folders(folder)) {
    const StudentFolder files = files_of(student);
    for (const Exercise& exercise : exercises)
      all.push_back(read_submission(student, exercise, folder, files));
  }
  return all;
}

std::vector<std::string> loose_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool may_be_handed_in = is_source(name) || is_archive(name);
    if (may_be_handed_in && !entry.is_directory() && !is_system_file(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_unchanged(const Submission& submission, const std::string& starter) {
  const std::string text = without_blanks(submission.text);
  return text.empty() || text == without_blanks(starter);
}

}  // namespace runner
