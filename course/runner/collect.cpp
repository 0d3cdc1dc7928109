#include "runner/collect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/submissions.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double unpack_seconds = 60;
constexpr int most_files = 1000;  // of one archive; a student's work has two for each exercise

std::string work_folder() {
  const char* const elsewhere = std::getenv("YOTTA_WORK");
  return elsewhere == nullptr ? YOTTA_SOURCE_DIR "/work" : elsewhere;
}

// "work/10_collectives/collectives_ring.hpp", and what tells of hints.
std::vector<std::string> wanted_files(const std::string& prefix) {
  std::vector<std::string> files;
  for (const std::string& id : find_exercises(YOTTA_SOURCE_DIR)) {
    const Exercise exercise = read_exercise(YOTTA_SOURCE_DIR, id);
    for (const std::string& name : {exercise.file_name(), std::string(".state.json")})
      files.push_back(fmt::format("{}{}/{}", prefix, id, name));
  }
  files.push_back(prefix + "progress.json");
  return files;
}

void pack(const std::string& archive) {
  const fs::path work = fs::absolute(work_folder()).lexically_normal();
  std::vector<std::string> command = {"tar", "-czf", fs::absolute(archive), "-C", work};
  const size_t words = command.size();
  for (const std::string& file : wanted_files(""))
    if (fs::is_regular_file(work / file)) command.push_back(file);
  if (command.size() == words) throw std::runtime_error("there is no work yet in " + work.string());
  const Ending ending = run_limited(command, unpack_seconds);
  if (!ending.well()) throw std::runtime_error("tar could not write it: " + ending.output);
  fmt::print("{} holds {} files; hand it in.\n", archive, command.size() - words);
}

// "ann.tar.gz" -> "ann"; empty: no archive.
std::string student_of(const fs::path& archive) {
  const std::string name = archive.filename();
  for (const char* end : {".tar.gz", ".tgz", ".tar"})
    if (name.ends_with(end) && !name.starts_with("."))
      return name.substr(0, name.size() - std::string(end).size());
  return "";
}

// Counted before they are unpacked, and no further than needed: a small archive may hold millions.
void expect_few_files(const fs::path& archive) {
  const Ending ending = run_limited(
      {"sh", "-c",
       fmt::format("tar -tf \"$0\" --wildcards --no-anchored \"$1\" progress.json .state.json "
                   "2>/dev/null | head -n {} | wc -l",
                   most_files + 1),
       archive, "*.hpp"},
      unpack_seconds);
  if (std::atoi(ending.output.c_str()) > most_files)
    throw std::runtime_error(fmt::format("it has more than {} files", most_files));
}

// Of a file that is too large one block more comes than `grade` takes, which says so; the others
// come whole. Links in an archive stay links, which `grade` refuses if they lead out; tar itself
// follows none and drops "..".
void unpack(const fs::path& archive, const fs::path& folder) {
  fs::create_directories(folder);
  std::vector<std::string> command = {
      "sh",
      "-c",
      fmt::format(
          "trap '' XFSZ; ulimit -f {}; exec tar -xf \"$0\" -C \"$1\" --no-same-owner --wildcards "
          "--no-anchored --warning=none \"$2\" progress.json .state.json",
          most_source_bytes / 512 + 1),
      archive,
      folder,
      "*.hpp"};
  run_limited(command, unpack_seconds);  // which complains of each name that is not there
}

bool holds_work(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_symlink() || !entry.is_directory()) return true;
  return false;
}

// An archive may be of the tree, of work/ or of what is in it: the folder with the exercises
// becomes the student's work/.
void straighten(const fs::path& folder) {
  const std::vector<std::string> ids = find_exercises(YOTTA_SOURCE_DIR);
  const fs::path usual = folder / "work";
  const auto is_exercise = [&](const std::string& id) { return fs::is_directory(usual / id); };
  if (std::any_of(ids.begin(), ids.end(), is_exercise)) return;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || std::find(ids.begin(), ids.end(), name) == ids.end()) continue;
    const fs::path holds = entry.path().parent_path();
    if (holds == folder) return;
    if (fs::exists(fs::symlink_status(usual)))
      throw std::runtime_error(fmt::format("it has {} beside work/: which of the two counts?",
                                           holds.lexically_relative(folder).string()));
    return fs::rename(holds, usual);
  }
}

// One archive that is wrong stops no other.
bool take_one(const fs::path& archive, const fs::path& place) {
  std::string why;
  if (fs::exists(place)) {
    fmt::print(stderr, "yotta: {} is there already, and {} was left alone\n", place.string(),
               archive.string());
    return false;
  }
  try {
    expect_few_files(archive);
    unpack(archive, place);
    if (holds_work(place)) return straighten(place), true;
  } catch (const std::exception& error) {
    why = fmt::format(": {}", error.what());
  }
  fmt::print(stderr, "yotta: nothing could be taken from {}{}\n", archive.string(), why);
  std::error_code ignored;
  fs::remove_all(place, ignored);
  return false;
}

int take_in(const std::string& folder, const std::string& out) {
  if (!fs::is_directory(folder)) throw std::runtime_error("there is no folder " + folder);
  int found = 0, failed = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string student = student_of(entry.path());
    if (student.empty() || !entry.is_regular_file()) continue;
    const fs::path place = fs::path(out) / student;
    ++found, failed += !take_one(fs::absolute(entry.path()), fs::absolute(place));
  }
  if (found == 0)
    throw std::runtime_error(folder + " holds no archive; expected STUDENT.tar.gz or .tgz");
  fmt::print("{} of {} archives unpacked to {}\n", found - failed, found, out);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int collect(const CollectOptions& options) {
  try {
    if (!options.folder.empty() && options.out.empty())
      throw std::runtime_error("--out must name the class's folder, which gets the work");
    if (!options.folder.empty()) return take_in(options.folder, options.out);
    pack(options.out.empty() ? "yotta-work.tar.gz" : options.out);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 2;
  }
}

}  // namespace runner
