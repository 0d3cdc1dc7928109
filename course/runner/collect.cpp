#include "runner/collect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <vector>

#include "runner/exercise.hpp"
#include "runner/grade.hpp"
#include "runner/json_output.hpp"
#include "runner/submissions.hpp"

namespace fs = std::filesystem;

namespace runner {
namespace {

constexpr double unpack_seconds = 60;
constexpr size_t most_files = 1000;    // of one archive; a student's work has two for each exercise
constexpr long most_listed = 1 << 24;  // bytes of names in one archive
constexpr uintmax_t most_unpacked_bytes = most_source_bytes + 512;

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

nlohmann::json pack(const std::string& archive) {
  const fs::path work = fs::absolute(work_folder()).lexically_normal();
  std::vector<std::string> command = {"tar", "-czf", fs::absolute(archive), "-C", work};
  const size_t words = command.size();
  for (const std::string& file : wanted_files(""))
    if (fs::is_regular_file(work / file)) command.push_back(file);
  if (command.size() == words) throw std::runtime_error("there is no work yet in " + work.string());
  const Ending ending = run_limited(command, unpack_seconds);
  if (!ending.well()) throw std::runtime_error("tar could not write it: " + ending.output);
  fmt::print("{} holds {} files; hand it in.\n", archive, command.size() - words);
  return {
      {"archive", archive},
      {"files", std::vector<std::string>(command.begin() + std::ptrdiff_t(words), command.end())}};
}

// Without what a platform adds: Moodle names what it was handed "Ann
// Lee_123_assignsubmission_file", Canvas "leeann_45_678_NAME", with LATE after the first word for
// who was.
std::string without_tail(const std::string& name) {
  static const std::regex tail(R"((_LATE)?(_\d+_assignsubmission_file.*|_\d+_\d+_.*)$)");
  return std::regex_replace(name, tail, "");
}

// "ann.tar.gz" -> "ann"; empty: no archive.
std::string student_of(const fs::path& archive) {
  const std::string name = archive.filename();
  for (const char* end : {".tar.gz", ".tgz", ".tar", ".zip"})
    if (name.ends_with(end) && !name.starts_with("."))
      return without_tail(name.substr(0, name.size() - std::string(end).size()));
  return "";
}

bool is_zip(const fs::path& archive) { return archive.extension() == ".zip"; }

bool is_wanted(const fs::path& name) {
  return name.extension() == ".hpp" || name.filename() == "progress.json" ||
         name.filename() == ".state.json";
}

// A name in a zip that may become a file below a folder, and that unzip does not take for a
// pattern.
bool is_harmless(const fs::path& name) {
  const bool leads_out = std::find(name.begin(), name.end(), "..") != name.end();
  return !leads_out && !name.is_absolute() &&
         name.string().find_first_of("*?[]\\") == std::string::npos &&
         !name.string().starts_with("-");
}

std::vector<std::string> wanted_in_zip(const fs::path& archive) {
  const Ending listed = run_limited({"unzip", "-Z1", archive}, unpack_seconds, most_listed);
  if (listed.status == 127)
    throw std::runtime_error("unzip is not installed: apt-get install unzip");
  std::vector<std::string> names = lines_of(listed.output);
  std::erase_if(names,
                [](const std::string& name) { return !is_wanted(name) || !is_harmless(name); });
  return names;
}

// unzip writes no file itself: what a member holds comes through a pipe, and a link is then no
// link.
void unpack_zip(const fs::path& archive, const fs::path& folder) {
  const std::vector<std::string> names = wanted_in_zip(archive);
  if (names.size() > most_files)
    throw std::runtime_error(fmt::format("it has more than {} files", most_files));
  for (const std::string& name : names) {
    const fs::path file = folder / name;
    fs::create_directories(file.parent_path());
    const Ending ending = run_limited(
        {"sh", "-c",
         fmt::format("{{ {{ unzip -p \"$0\" \"$1\"; echo $? >&3; }} | head -c {} >\"$2\"; }} 3>&1 "
                     "2>/dev/null",
                     most_unpacked_bytes),
         archive, name, file},
        unpack_seconds);
    if (trimmed(ending.output) != "0" && fs::file_size(file) < most_unpacked_bytes)
      throw std::runtime_error(fmt::format("it is damaged: {} cannot be read to its end", name));
  }
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
  if (std::strtoul(ending.output.c_str(), nullptr, 10) > most_files)
    throw std::runtime_error(fmt::format("it has more than {} files", most_files));
}

// What is left of a damaged archive must not be graded as if it were all.
void expect_whole(const fs::path& archive) {
  const Ending ending =
      run_limited({"sh", "-c", "exec tar -tf \"$0\" >/dev/null", archive}, unpack_seconds);
  if (!ending.well())
    throw std::runtime_error("it is damaged: " + ending.output.substr(0, ending.output.find('\n')));
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
          most_unpacked_bytes / 512),
      archive,
      folder,
      "*.hpp"};
  run_limited(command, unpack_seconds);  // which complains of each name that is not there
}

bool holds_work(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
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

// One archive that is wrong stops no other. Empty, or why nothing was taken.
std::string take_one(const fs::path& archive, const fs::path& place) {
  std::string why;
  if (fs::exists(place))
    return fmt::format("{} is there already, and {} was left alone", place.string(),
                       archive.string());
  try {
    if (is_zip(archive)) {
      unpack_zip(archive, place);
    } else {
      expect_whole(archive);
      expect_few_files(archive);
      unpack(archive, place);
    }
    if (holds_work(place)) return straighten(place), "";
  } catch (const std::exception& error) {
    why = fmt::format(": {}", error.what());
  }
  std::error_code ignored;
  fs::remove_all(place, ignored);
  return fmt::format("nothing could be taken from {}{}", archive.string(), why);
}

struct Archive {
  fs::path file;
  std::string student;
};

// Those that lie in the folder are named after the student; of those one folder deeper that folder
// is.
std::vector<Archive> archives_in(const std::string& folder) {
  std::vector<Archive> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) all.push_back({entry.path(), student_of(entry.path())});
    if (!entry.is_directory() || entry.is_symlink()) continue;
    for (const auto& inner : fs::directory_iterator(entry.path()))
      if (inner.is_regular_file() && !student_of(inner.path()).empty())
        all.push_back({inner.path(), without_tail(entry.path().filename())});
  }
  std::erase_if(all, [](const Archive& one) { return one.student.empty(); });
  std::sort(all.begin(), all.end(),
            [](const Archive& a, const Archive& b) { return a.file < b.file; });
  if (all.empty())
    throw std::runtime_error(folder +
                             " holds no archive; expected STUDENT.tar.gz, .tgz, .tar or .zip, or "
                             "STUDENT/ with one of them in it");
  return all;
}

nlohmann::json take_in(const std::string& folder, const std::string& out) {
  nlohmann::json taken = nlohmann::json::array(), refused = nlohmann::json::array();
  for (const auto& [file, student] : archives_in(folder)) {
    const std::string why = take_one(fs::absolute(file), fs::absolute(fs::path(out) / student));
    nlohmann::json one = {{"student", student}, {"archive", file.string()}};
    if (why.empty()) {
      taken.push_back(one);
      continue;
    }
    fmt::print(stderr, "yotta: {}\n", why);
    one["why"] = why;
    refused.push_back(one);
  }
  fmt::print("{} of {} archives unpacked to {}\n", taken.size(), taken.size() + refused.size(),
             out);
  return {{"folder", out}, {"taken", taken}, {"refused", refused}};
}

}  // namespace

int collect(const CollectOptions& options) {
  try {
    if (!options.folder.empty() && !fs::is_directory(options.folder))
      throw std::runtime_error("there is no folder " + options.folder);
    if (!options.folder.empty() && options.out.empty())
      throw std::runtime_error("--out must name the class's folder, which gets the work");
    JsonOutput json(options.json);
    const nlohmann::json done = options.folder.empty()
                                    ? pack(options.out.empty() ? "yotta-work.tar.gz" : options.out)
                                    : take_in(options.folder, options.out);
    json.write(done);
    return done.value("refused", nlohmann::json::array()).empty() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "yotta: {}\n", error.what());
    return 2;
  }
}

}  // namespace runner
